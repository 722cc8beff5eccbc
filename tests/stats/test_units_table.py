"""Table 8 from logs with made-up errors: each number against its own definition, and who may stand beside whom."""

from __future__ import annotations

import json
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from loglines import run_record, write_log
from scipy.stats import t as student

from bcrbench.cli.stats import stats
from bcrbench.errors import UserError
from bcrbench.runs.log import read_outcomes
from bcrbench.runs.schema import EndRecord, ProbeRecord
from bcrbench.stats.units import paired_t, unit_rows

SEEDS = 2
EFFECTIVE = {"probe": "units", "segment_tokens": 2048, "rho": 0.2, "seeds": list(range(SEEDS)), "role": "clerk"}
ATTENTION = [0.030, 0.042, 0.035, 0.051]
COIN = [[0.080, 0.090], [0.070, 0.074], [0.034, 0.030], [0.095, 0.085]]
BARE = [0.10, 0.11, 0.09, 0.12]


def probe(prompt: int, unit: int, chooser: str, operator: str, error: float, seed: int | None = None) -> ProbeRecord:
    rows = {0: 0, 1: 410, 1024: 1024, 2048: 2048}[unit]
    return ProbeRecord(
        prompt=prompt, prompt_hash="h", unit=unit, chooser=chooser, operator=operator, seed=seed, rows=rows,
        segment=2048, budget=rows / 2048, error=error, wall_s=1.0,
    )  # type: ignore[arg-type]  # fmt: skip


def lines_of(prompt: int) -> list[ProbeRecord]:
    made = [probe(prompt, 0, "none", "none", BARE[prompt])]
    for operator, factor in (("transplant", 1.0), ("recompute", 1.1)):
        for unit in (1, 1024):
            made.append(probe(prompt, unit, "attention", operator, factor * ATTENTION[prompt]))
            made += [probe(prompt, unit, "coin", operator, factor * COIN[prompt][s], s) for s in range(SEEDS)]
        made.append(probe(prompt, 2048, "all", operator, 0.0))
    return made


def write(path: Path, probes: list[ProbeRecord], status: Any = "complete") -> Path:
    end = EndRecord(status=status, items=0, correct=0, calls=0, reused=0, new_tokens=0, wall_s=1.0)
    records = [run_record("units:segment_tokens=2048", 9, effective=EFFECTIVE), *probes, *([end] if status else [])]
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "probe.jsonl", [line for prompt in range(4) for line in lines_of(prompt)])


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(stats, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.mark.parametrize(("operator", "factor"), [("transplant", 1.0), ("recompute", 1.1)])
def test_each_number_is_its_definition(log: Path, operator: str, factor: float) -> None:
    row = unit_rows(read_outcomes(log), operator)[0]
    coins = [factor * fmean(errors) for errors in COIN]
    ours = [factor * error for error in ATTENTION]
    differences = [c - a for c, a in zip(coins, ours, strict=True)]
    t = fmean(differences) / (stdev(differences) / sqrt(4))
    assert row["unit"] == 1
    assert row["budget"] == pytest.approx(410 / 2048)
    assert row["attention"] == pytest.approx(fmean(ours))
    assert row["coin"] == pytest.approx(fmean(coins))
    assert row["gap"] == pytest.approx(fmean(differences))
    assert row["no_repair"] == pytest.approx(fmean(BARE))
    assert row["gap_share"] == pytest.approx(fmean(differences) / fmean(BARE))
    assert row["won"] == 3
    assert row["t"] == pytest.approx(t)
    assert row["p"] == pytest.approx(2 * student.sf(abs(t), 3))


def test_the_whole_segment_has_no_choice(log: Path) -> None:
    row = unit_rows(read_outcomes(log), "transplant")[-1]
    assert (row["unit"], row["budget"], row["gap"], row["won"], row["p"]) == (2048, 1.0, 0.0, None, None)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=8))
def test_paired_t_is_antisymmetric_and_absent_where_undefined(pairs: list[tuple[float, float]]) -> None:
    one, two = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    t, p = paired_t(one, two)
    back, same = paired_t(two, one)
    if len({a - b for a, b in pairs}) < 2:
        assert (t, p) == (back, same) == (None, None)
    else:
        assert t is not None and p is not None and back is not None
        assert t == pytest.approx(-back)
        assert p == same
        assert 0 <= p <= 1


def test_prompts_that_are_not_whole_do_not_count(tmp_path: Path) -> None:
    probes = [line for prompt in range(3) for line in lines_of(prompt)] + lines_of(3)[:3]
    cut = write(tmp_path / "cut.jsonl", probes, status=None)
    whole = write(tmp_path / "whole.jsonl", [line for prompt in range(3) for line in lines_of(prompt)])
    kept = ("unit", "attention", "coin", "gap_share", "prompts", "p")
    one, two = (unit_rows(read_outcomes(path), "transplant") for path in (cut, whole))
    assert [[row[name] for name in kept] for row in one] == [[row[name] for name in kept] for row in two]
    assert "killed; only what it holds is counted" in run(cut).stderr


def test_the_paper_stands_beside_ours(log: Path) -> None:
    rows = json.loads(run(log, "--format", "json", "--paper").stdout)
    assert len(rows) == 6
    single = rows[0]
    assert (single["paper_attention"], single["paper_coin"], single["paper_won"]) == (0.0375, 0.0896, 6)
    # Printed gap and share come of unrounded errors, so they agree with the printed ones within half a last digit.
    assert single["paper_gap"] == pytest.approx(single["paper_coin"] - single["paper_attention"], abs=1e-4)
    for row in rows:
        if row["paper_gap_share"] is not None:
            assert row["paper_gap_share"] == pytest.approx(row["paper_gap"] / row["paper_no_repair"], abs=1.5e-3)
    assert "paper_attention" not in json.loads(run(log, "--format", "json").stdout)[0]


@pytest.mark.parametrize("fmt", ["table", "md", "latex"])
def test_a_reader_gets_one_titled_table_an_operator(log: Path, fmt: str) -> None:
    made = run(log, "--format", fmt, "--paper")
    for operator in ("transplant", "recompute"):
        title = f"{operator}: task quotes, model bundled, role clerk, 2048 tokens, 4 prompts"
        assert f"{title}, error without repair 0.1050" in made.stdout
    assert "0.0395" in made.stdout
    assert "0.0375" in made.stdout
    assert "error without repair 0.1054" in made.stderr
    assert "units 1024 are not budget-matched" in made.stderr


def test_csv_holds_both_operators(log: Path) -> None:
    lines = run(log, "--format", "csv").stdout.splitlines()
    assert lines[0].startswith("task,model,segment_tokens,operator,unit,budget")
    assert len(lines) == 1 + 6


def test_probes_and_runs_are_told_apart(log: Path, tmp_path: Path) -> None:
    dense = write_log(tmp_path / "dense.jsonl", "dense", [True, False])
    both = run(tmp_path)
    assert "dense" in both.stdout
    assert "transplant: task" in both.stdout
    with pytest.raises(UserError, match="a probe among 1 runs, expected one kind with --format csv"):
        run(tmp_path, "--format", "csv")
    with pytest.raises(UserError, match="--paper: no probe among the logs"):
        run(dense, "--paper")
    with pytest.raises(UserError, match="--vs: has no meaning for the logs of a probe"):
        run(log, "--vs", "dense")


def test_a_measurement_twice_or_after_the_end_is_damage(tmp_path: Path) -> None:
    first = lines_of(0)
    with pytest.raises(UserError, match=f":{len(first) + 2}: record: the same measurement is on line 3 too"):
        read_outcomes(write(tmp_path / "twice.jsonl", [*first, first[1]]))
    path = write(tmp_path / "late.jsonl", first[:-1])
    path.write_bytes(path.read_bytes() + msgspec.json.encode(first[-1]) + b"\n")
    with pytest.raises(UserError, match="a probe after the end record"):
        read_outcomes(path)
