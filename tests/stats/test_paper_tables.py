"""The paper's tables from logs: every cell is the count that a hand would make, and no missing log stops one."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from papergrid import COINS, cell_log, everything, one_call, probe_log, twin_log

from bcrbench.cli.stats import stats
from bcrbench.conditions import parse
from bcrbench.errors import UserError
from bcrbench.reuse.policies import POLICIES
from bcrbench.runs.log import read_outcomes
from bcrbench.stats.arms import make_arms
from bcrbench.stats.cells import group_arms
from bcrbench.stats.condition import DEFAULTS, setting_of
from bcrbench.stats.intervals import wilson
from bcrbench.stats.paired import mcnemar
from bcrbench.stats.paper_tables import TABLES
from bcrbench.stats.paper_tables.build import Build
from bcrbench.stats.paper_tables.forms import FORMS
from bcrbench.stats.paper_tables.places import groups
from bcrbench.stats.paper_tables.printed import printed
from bcrbench.stats.paper_tables.render import records
from bcrbench.stats.paper_tables.report import make_table, paper_table
from bcrbench.stats.paper_tables.wants import Want, grid_wants
from bcrbench.stats.units import is_probe

NUMBERS = [str(number) for number in range(1, 16)]
FORMATS = ("table", "md", "csv", "json", "latex")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return everything(tmp_path_factory.mktemp("full"))


@cache
def _read(folder: Path) -> tuple[list[Any], list[Any]]:
    logs = [read_outcomes(path) for path in sorted(folder.glob("*.jsonl"))]
    return [log for log in logs if not is_probe(log)], [log for log in logs if is_probe(log)]


def read(folder: Path) -> tuple[list[Any], list[Any]]:
    return _read(folder)


def rows(folder: Path, number: str, paper: bool = False, **options: Any) -> list[dict[str, Any]]:
    runs, probes = read(folder)
    return json.loads(paper_table(number, runs, probes, "json", paper, **options)[0])


def notes(folder: Path, number: str) -> str:
    return "\n".join(make_table(number, *read(folder))[1])


def row(found: Iterable[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    [one] = [each for each in found if all(each.get(key) == value for key, value in wanted.items())]
    return one


def outcomes(folder: Path, condition: str, task: str, agents: int, pinned: bool = False) -> list[bool]:
    for log in read(folder)[0]:
        here = (log.run.condition, log.run.task, log.run.cell["agents"], log.run.resolved["roles"] == "pin:a")
        if here == (condition, task, agents, pinned):
            return [item.outcome == "correct" for item in log.items]
    raise AssertionError(condition)


# Every table, every format


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("number", NUMBERS)
def test_every_table_renders_whole(full: Path, number: str, fmt: str) -> None:
    text, beside = paper_table(number, *read(full), fmt, paper=True)
    assert "no log of" not in text + "\n".join(beside)
    if fmt == "json":
        assert json.loads(text)
    elif fmt == "csv":
        parsed = list(csv.reader(io.StringIO(text)))
        assert len({len(line) for line in parsed}) == 1
    else:
        assert not beside
        assert number == "6" or "{" in text, "the eight items of these logs have none of the paper's blocks"
    if fmt == "latex":
        assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == text.count(r"\toprule") >= 1
        assert "\ue000" not in text


@pytest.mark.parametrize("number", [number for number in NUMBERS if number != "6"])
def test_nothing_is_missing_where_the_paper_prints_something(full: Path, number: str) -> None:
    panels, _ = make_table(number, *read(full))
    ours = {(panel.name, line.name): line.values for panel in panels for line in panel.lines}
    for panel, lines in printed(number)["panels"].items():
        for name, values in lines.items():
            assert (panel, name) in ours, "a printed row that no row of ours is beside"
            absent = [key for key in values if ours[panel, name].get(key) is None]
            assert not absent or (number == "8" and name in ("16", "256")), "the probe has four of the units"


@pytest.mark.parametrize("number", NUMBERS)
def test_no_logs_at_all_give_the_papers_rows_and_say_what_would_fill_them(number: str) -> None:
    for fmt in FORMATS:
        text, beside = paper_table(number, [], [], fmt, paper=True)
        assert "-: no log of" in text + "\n".join(beside)
    found = json.loads(paper_table(number, [], [], "json")[0])
    measured = {key: value for each in found for key, value in each.items() if value is not None}
    assert len(found) >= 4 and not any(isinstance(value, float) for value in measured.values())


@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_part_of_the_logs_gives_every_table(full: Path, data: st.DataObject) -> None:
    runs, probes = read(full)
    some = data.draw(st.lists(st.sampled_from(runs), unique_by=id, max_size=25))
    number = data.draw(st.sampled_from(NUMBERS))
    fmt = data.draw(st.sampled_from(FORMATS))
    text, _ = paper_table(number, some, probes[: data.draw(st.integers(0, 1))], fmt, data.draw(st.booleans()))
    assert text


@pytest.mark.parametrize("number", NUMBERS)
def test_printed_values_stand_in_our_units_and_print_as_the_paper_does(number: str) -> None:
    panels, _ = make_table(number, [], [])
    known = {(panel.name, line.name): (panel, line) for panel in panels for line in panel.lines}
    for name, lines in printed(number)["panels"].items():
        for label, values in lines.items():
            panel, line = known[name, label]
            columns = {column.key: column for column in panel.columns}
            for key, value in values.items():
                form = line.form(columns[key])
                shown = form.show(form.read(value))
                digits = "".join(char for char in shown if char.isdigit())
                wanted = value if isinstance(value, list) else [value]
                assert all(_digits(part) in digits or shown.startswith("<0.001") for part in wanted), (
                    label,
                    key,
                    shown,
                )


def _digits(value: float) -> str:
    return f"{abs(value):g}".replace(".", "")


# What the cells hold


def test_table_2_is_counted_against_dense(full: Path) -> None:
    dense, kvcomm = (outcomes(full, name, "gsm8k", 3) for name in ("dense", "kvcomm:gamma=1.0"))
    b = sum(one and not two for one, two in zip(dense, kvcomm, strict=True))
    c = sum(two and not one for one, two in zip(dense, kvcomm, strict=True))
    found = rows(full, "2", paper=True)[3]
    assert (found["split_b"], found["split_c"], found["discordant"]) == (b, c, b + c)
    assert found["p"] == mcnemar(b, c)
    assert found["cost"] == pytest.approx(fmean(kvcomm) - fmean(dense))
    assert (found["ci_low"], found["ci_high"]) == wilson(sum(kvcomm), len(kvcomm))
    assert (found["paper_split_b"], found["paper_accuracy"]) == (35, pytest.approx(0.78))
    assert rows(full, "2")[0]["split_b"] is None


@pytest.mark.parametrize("task", ["mmlu", "gsm8k", "humaneval"])
def test_a_net_is_the_difference_of_accuracies_in_every_cell(full: Path, task: str) -> None:
    accuracies = rows(full, "3")
    title = {"mmlu": "MMLU", "gsm8k": "GSM8K", "humaneval": "HumanEval"}[task]
    for table, against, first in (("13", "KVComm", "split"), ("14", "BCR-chunk", "condition")):
        base = row(accuracies, part="Accuracy", method=against)
        for line in (each for each in rows(full, table) if each["dataset"] == title):
            mine = row(accuracies, part="Accuracy", method=line[first].removesuffix(f" vs. {against}"))
            for count in (2, 3, 4, 5):
                b, c = line[f"split_{count}_b"], line[f"split_{count}_c"]
                assert b - c == round(8 * (mine[f"{task}_{count}"] - base[f"{task}_{count}"]))
                assert line[f"p_{count}"] == mcnemar(b, c)


def test_triples_obey_parity_and_the_triangle(full: Path) -> None:
    to_kvcomm, to_chunk = rows(full, "13"), rows(full, "14")
    for title in ("MMLU", "GSM8K", "HumanEval"):
        chunk = row(to_kvcomm, dataset=title, split="BCR-chunk vs. KVComm")
        for label in ("BCR-grow", "BCR-single"):
            one, two = (
                row(to_kvcomm, dataset=title, split=f"{label} vs. KVComm"),
                row(to_chunk, dataset=title, condition=label),
            )
            for count in (2, 3, 4, 5):
                sides = [each[f"split_{count}_b"] + each[f"split_{count}_c"] for each in (chunk, one, two)]
                assert sum(sides) % 2 == 0
                assert 2 * max(sides) <= sum(sides)


def test_pooled_splits_are_sums_without_a_test(full: Path) -> None:
    cells = rows(full, "13")
    for panel, label in (("4(c)", "BCR-grow vs. KVComm"), ("4(d)", "Dense vs. KVComm")):
        for title in ("MMLU", "GSM8K", "HumanEval"):
            found = row(rows(full, "4"), table=panel, dataset=title)
            line = row(cells, dataset=title, split=label)
            for part in "bc":
                pooled = found[f"grow_{part}"] if panel == "4(c)" else found[f"pooled_{part}"]
                assert pooled == sum(line[f"split_{count}_{part}"] for count in (2, 3, 4, 5))
            assert not any(name.startswith("p_pooled") or name == "p" for name in found)
    five = [each for each in rows(full, "5") if each["table"] == "5(b)"]
    assert all(key.rpartition("_")[2] in "bc" for each in five for key in each if key not in ("table", "pairing"))


def test_table_3_averages_counts_and_marks_the_best(full: Path) -> None:
    found = row(rows(full, "3"), part="Accuracy", method="KVComm")
    assert found["gsm8k_avg"] == pytest.approx(fmean(found[f"gsm8k_{count}"] for count in (2, 3, 4, 5)))
    [panel], _ = make_table("3", *read(full))
    accuracies = [line for line in panel.lines if line.name.startswith("accuracy")]
    for column in panel.columns[2:]:
        values = [line.values[column.key] for line in accuracies]
        best = [column.key in line.best for line in accuracies]
        assert not best[0], "Dense is left out"
        assert best[1:] == [value == max(values[1:]) for value in values[1:]]
        shaded = [line.name for line in accuracies if column.key in line.shaded]
        assert bool(shaded) == column.key.endswith("_avg")
        assert all(name.split()[1] in ("chunk", "grow", "single") for name in shaded)


def test_table_6_blocks_are_cut_in_the_runs_order(tmp_path: Path) -> None:
    flags = [random.Random(k).choice(["correct", "wrong"]) for k in range(130)]
    cell_log(tmp_path, "dense", outcomes=["correct"] * 130)
    cell_log(tmp_path, "kvcomm:gamma=0.3", outcomes=flags)
    found = rows(tmp_path, "6")
    assert [each["problems"] for each in found] == ["1-60", "61-120", "121-130", "1-130"]
    for each, (start, stop) in zip(found, ((0, 60), (60, 120), (120, 130), (0, 130)), strict=True):
        share = flags[start:stop].count("correct") / (stop - start)
        assert each["kvcomm"] == pytest.approx(share)
        assert each["delta"] == pytest.approx(share - 1)


def test_table_7_residuals_are_0_at_the_ends_of_the_line(full: Path, tmp_path: Path) -> None:
    for condition in ("dense", "kvcomm:gamma=0.3", "random:gamma=0.3"):
        served = {"calls": {"served": "dense"}} if condition == "dense" else {}
        cell_log(tmp_path, condition, agents=5, pinned=True, **served)
    found = {each["policy"]: each for each in rows(tmp_path, "7")}
    assert found["Dense"]["reuse"] == 0
    assert [found[name]["residual"] for name in ("Dense", "KVComm")] == pytest.approx([0, 0])
    random_row = found["Random"]
    slope = (found["Dense"]["accuracy"] - found["KVComm"]["accuracy"]) / found["KVComm"]["reuse"]
    assert random_row["predicted"] == pytest.approx(found["Dense"]["accuracy"] - slope * random_row["reuse"])
    assert found["Protect-the-Root"]["accuracy"] is None


def test_table_9_pairs_with_the_default_gate_and_looks_at_the_last_third(full: Path) -> None:
    found = rows(full, "9")
    assert [each["p"] is None for each in found] == [True, True, False, False, False]
    [log] = [log for log in read(full)[0] if (log.run.condition, log.run.cell["agents"]) == ("kvcomm:gamma=0.5", 3)]
    late = [call.served == "reuse" for item in log.items[-2:] for call in item.calls]
    assert found[2]["late"] == pytest.approx(fmean(late))
    assert found[2]["calls_reused"] + found[2]["calls_dense"] == sum(len(item.calls) for item in log.items)


def test_table_10_pairs_each_call_with_its_twin_and_leaves_warm_ups_out(full: Path) -> None:
    found = rows(full, "10")
    fast = row(found, metric="TTFT (ms)", method="KVComm")
    assert fast["at_64"] < 100, "the warm-up call of a million milliseconds is left out"
    assert row(found, metric="TTFT (ms)", method="Dense")["at_512"] == pytest.approx(612)
    speed = row(found, metric="Speedup vs. Dense", method="KVComm")
    assert speed["calls_64"] == 3 * 6 - 1
    assert speed["ratio_of_means_64"] == pytest.approx(164 / fast["at_64"])
    assert speed["interval_64_low"] <= speed["at_64"] <= speed["interval_64_high"]
    charged, bare = (row(found, metric="TTFT (ms)", method=f"BCR-chunk (FA2, draft{more})")["at_64"]
                     for more in ("", ", draft left out"))  # fmt: skip
    assert 1 < charged - bare < 5
    assert (
        row(rows(full, "1"), table="1(c)", method="KVComm")["times"]
        == row(found, metric="Speedup vs. Dense", method="KVComm")["at_4096"]
    )


def test_table_11_takes_seeds_of_conditions_and_of_runs(full: Path, tmp_path: Path) -> None:
    found = rows(full, "11")[2]
    shares = [fmean(outcomes(full, name, "gsm8k", 2)) for name in COINS if "rho=0.2," in name]
    assert [found[f"seed_{seed}"] for seed in range(4)] == shares
    assert found["mean"] == pytest.approx(fmean(shares))
    condition = "bcr-chunk:gamma=0.3,rho=0.05,select=coin"
    for seed in (0, 7):
        cell_log(tmp_path, condition, agents=2, seeds={"run": seed})
    [line] = [each for each in rows(tmp_path, "11") if each["rho"] == "0.05"]
    assert {key for key in line if key.startswith("seed_") and line[key] is not None} == {"seed_0", "seed_0.7"}
    assert "seed=1, " in notes(tmp_path, "11")


def test_table_12_orients_its_splits_and_measures_spans(full: Path) -> None:
    found = {each["cap"]: each for each in rows(full, "12")}
    grow, dense = (outcomes(full, name, "gsm8k", 4) for name in ("bcr-grow:gamma=0.3", "dense"))
    assert found["Dense"]["split_4_b"] == sum(one and not two for one, two in zip(dense, grow, strict=True))
    assert found["64 (BCR-grow)"]["split_4_b"] is None and found["1"]["length"] == 1.0
    assert 2.5 < found["2"]["length"] < 6.5
    assert found["KVComm"]["rows_2"] is None


def test_table_15_counts_repaired_calls_only(tmp_path: Path) -> None:
    rng = random.Random(0)
    some = one_call(rng, "1", served="reuse")
    some.rows.recomputed = 30
    path = cell_log(tmp_path, "bcr-chunk:gamma=0.3", agents=2, n=1)
    log = json.loads(path.read_text().splitlines()[1])
    for call, count in zip(log["calls"], (0, 10, 40), strict=True):
        call["rows"]["recomputed"] = count
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], json.dumps(log), *lines[2:]]) + "\n")
    assert row(rows(tmp_path, "15"), dataset="GSM8K", method="BCR-chunk")["rows_2"] == 25


# Which logs are which


def test_other_tasks_fill_the_tables_when_the_papers_are_not_there(tmp_path: Path) -> None:
    for condition in ("dense", "kvcomm:gamma=1.0", "bcr-chunk:gamma=1.0,B=8"):
        cell_log(tmp_path, condition, "quotes", 3)
    found = rows(tmp_path, "3")
    assert row(found, part="Accuracy", method="BCR-chunk")["quotes@bundled_3"] is not None
    assert "bcr-chunk:gamma=1.0,B=8" in notes(tmp_path, "3")
    assert rows(tmp_path, "2")[3]["split_b"] is not None
    assert "no log is of the paper's cell" in notes(tmp_path, "2")


def test_sizes_are_told_apart_and_the_papers_is_taken(tmp_path: Path) -> None:
    cell_log(tmp_path, "dense", outcomes=["correct"] * 150)
    cell_log(tmp_path, "dense", outcomes=["wrong"] * 200)
    assert row(rows(tmp_path, "3"), part="Accuracy", method="Dense")["gsm8k_3"] == 1.0
    assert rows(tmp_path, "2")[0]["accuracy"] == 0.0
    assert "200 items, paper 300" in notes(tmp_path, "2")


def test_two_models_are_two_blocks(tmp_path: Path) -> None:
    for name in ("w0", "w1"):
        cell_log(tmp_path, "dense", cell={"model": name}, model={"weights_hash": name, "spec": f"m-{name}"})
    [found] = [each for each in rows(tmp_path, "3") if (each["part"], each["method"]) == ("Accuracy", "Dense")]
    assert found["gsm8k@m-w0_3"] is not None and found["gsm8k@m-w1_3"] is not None
    assert len([each for each in rows(tmp_path, "2") if each["method"] == "Dense"]) == 2


@pytest.mark.parametrize("name", [name for name in POLICIES.names() if name != "placebo"])
def test_defaults_of_conditions_are_the_policies_own(name: str) -> None:
    policy = POLICIES.get(name)()
    own = {spot.name: getattr(policy, spot.name) for spot in fields(policy)}
    setting = setting_of(read_like(name))
    for key in DEFAULTS.keys() & own.keys() - {"prompts", "tokens"}:
        assert setting.get(key) == own[key], key


def read_like(condition: str) -> Any:
    class Run:
        effective: dict[str, Any] = {}

    run = Run()
    run.condition = condition  # type: ignore[attr-defined]
    return run


@pytest.mark.parametrize("task", ["mmlu", "gsm8k", "humaneval", "quotes"])
def test_what_would_fill_a_cell_is_a_condition_that_runs_and_fits(task: str, tmp_path: Path) -> None:
    for number, want in enumerate(grid_wants(task, 0.3).values()):
        text = want.told.replace("match=reuse:LOG", "match=reuse:0.5")
        spec = parse(text)
        log = read_outcomes(cell_log(tmp_path, spec.text, task, 2, n=1))
        [arm] = make_arms([log])
        assert want.fits(arm) and not want.misses(arm), number


def test_text_parameters_and_prefixes_are_matched(tmp_path: Path) -> None:
    log = read_outcomes(cell_log(tmp_path, "cacheblend:gamma=0.3,match=reuse:0.629", agents=2))
    [arm] = make_arms([log])
    assert Want("x", "cacheblend", {"match": "reuse:"}).fits(arm)
    assert not Want("x", "cacheblend", {"match": "cost"}).fits(arm)
    assert arm.setting.get("gamma") == 0.3


def test_groups_hold_the_papers_tasks_in_order(full: Path) -> None:
    cells, _ = group_arms(make_arms(read(full)[0]))
    assert [group.title for group in groups(cells)] == ["MMLU", "GSM8K", "HumanEval"]
    assert [group.title for group in groups([])] == ["MMLU", "GSM8K", "HumanEval"]


# What must be said


def test_unfinished_and_limited_runs_are_marked_in_every_table(full: Path, tmp_path: Path) -> None:
    for path in full.glob("*.jsonl"):
        lines = path.read_text().splitlines()
        run = json.loads(lines[0])
        run["items"] |= {"limit": 8, "total": 1319}
        # The last line goes: the run was killed after its last item.
        (tmp_path / path.name).write_text("\n".join([json.dumps(run, separators=(",", ":")), *lines[1:-1]]) + "\n")
    for number in NUMBERS:
        text, _ = paper_table(number, *read(tmp_path), "table")
        assert "†" in text and "killed" in text, number
        assert number == "8" or "items (--limit 8), not the whole set" in text, number
        record = json.loads(paper_table(number, *read(tmp_path), "json")[0])
        assert any(each.get("unfinished") for each in record)


def test_a_run_that_was_cut_short_keeps_its_accuracy_and_loses_its_pairs(tmp_path: Path) -> None:
    cell_log(tmp_path, "dense", outcomes=["correct"] * 10)
    cell_log(tmp_path, "kvcomm:gamma=0.3", outcomes=["wrong"] * 4, status="cancelled", size=10)
    found = rows(tmp_path, "2")[1]
    assert (found["accuracy"], found["split_b"], found["unfinished"]) == (0.0, None, "accuracy ci rate")
    assert "--intersect pairs the 4 that both have" in notes(tmp_path, "2")
    assert rows(tmp_path, "2", intersect=True)[1]["cost"] == -1.0


def test_what_may_not_be_paired_is_refused_in_tables_too(tmp_path: Path) -> None:
    cell_log(tmp_path, "dense")
    cell_log(tmp_path, "kvcomm:gamma=0.3", prompts={"hash": "p1"})
    with pytest.raises(UserError, match=r"cannot be paired .* prompts\.hash is 'p1', expected 'p0'"):
        rows(tmp_path, "2")
    assert rows(tmp_path, "8")


def test_ungraded_runs_have_no_accuracy_and_say_how_to_get_one(tmp_path: Path) -> None:
    cell_log(tmp_path, "dense", "humaneval", 2, outcomes=["ungraded"] * 4)
    found = row(rows(tmp_path, "3"), part="Accuracy", method="Dense")
    assert found["humaneval_2"] is None
    assert "are ungraded, so it has no accuracy: `bcrbench grade " in notes(tmp_path, "3")


def test_identical_runs_and_few_pairs_are_said_below_the_table(tmp_path: Path) -> None:
    one = cell_log(tmp_path, "kvcomm:gamma=0.3")
    lines = one.read_text().splitlines()
    run = json.loads(lines[0]) | {"condition": "kvcomm:gamma=1.0", "fingerprint": "other"}
    (tmp_path / "b.jsonl").write_text("\n".join([json.dumps(run, separators=(",", ":")), *lines[1:]]) + "\n")
    cell_log(tmp_path, "dense")
    text = notes(tmp_path, "2")
    assert "did the setting arrive?" in text
    assert "2 of 2 splits have fewer than 20 discordant pairs" in text


def test_a_twinless_copymachine_run_is_said(tmp_path: Path) -> None:
    cell_log(tmp_path, "kvcomm:gamma=0.3", "copymachine", 5)
    assert "no reused call beside a dense serving" in notes(tmp_path, "10")


# The command


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(stats, [str(argument) for argument in arguments], catch_exceptions=False)


def test_the_command_prints_tables(full: Path) -> None:
    made = run(full, "--table", "13", "--paper")
    assert made.exit_code == 0 and "{16/12}" in made.stdout and made.stderr == ""
    assert json.loads(run(full, "--table", "13", "--format", "json").stdout)[0]["dataset"] == "MMLU"
    assert "note: b: items that KVComm misses" in run(full, "--table", "13", "--format", "csv").stderr
    with pytest.raises(UserError, match="unknown table '16'"):
        run(full, "--table", "16")
    with pytest.raises(UserError, match="unknown table '0'"):
        run(full, "--table", "0")
    with pytest.raises(UserError, match="--vs: has no meaning with --table 2"):
        run(full, "--table", "2", "--vs", "dense")
    with pytest.raises(UserError, match="--items-across-cells: has no meaning"):
        run(full, "--table", "2", "--items-across-cells")


def test_the_registry_knows_the_papers_tables_and_every_kind_is_used(full: Path) -> None:
    assert sorted(TABLES.names(), key=int) == NUMBERS
    used = {
        column.kind for number in NUMBERS for panel in make_table(number, *read(full))[0] for column in panel.columns
    }
    used |= {line.kind for number in NUMBERS for panel in make_table(number, *read(full))[0] for line in panel.lines}
    assert FORMS.keys() - used == set()


def test_records_of_several_panels_name_their_table(full: Path) -> None:
    found = {each["table"] for each in records("4", TABLES.get("4")(Build(*_cells(full))), paper=True)}
    assert found == {"4(a)", "4(b)", "4(c)", "4(d)"}


def _cells(folder: Path) -> tuple[Any, Any]:
    runs, probes = read(folder)
    return group_arms(make_arms(runs))[0], probes


def test_probes_of_an_unfinished_run_are_marked(tmp_path: Path) -> None:
    path = probe_log(tmp_path)
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    assert "killed; only what it holds is counted" in notes(tmp_path, "8")
    assert "†" in paper_table("8", *read(tmp_path), "table")[0]


def test_kernels_of_one_condition_are_two_rows(tmp_path: Path) -> None:
    for kernel in ("sdpa", "tiles"):
        twin_log(tmp_path, "bcr-chunk:gamma=0.3,select=coin", 64, kernel)
    methods = {each["method"] for each in rows(tmp_path, "10") if each["at_64"] is not None}
    assert methods == {"BCR-chunk (SDPA)", "BCR-chunk (tiles)"}


def test_sums_and_means_over_agent_counts_need_every_count(tmp_path: Path) -> None:
    for agents in (2, 3, 4):
        for condition in ("dense", "kvcomm:gamma=0.3"):
            cell_log(tmp_path, condition, agents=agents)
    line = row(rows(tmp_path, "3"), part="Accuracy", method="KVComm")
    assert line["gsm8k_4"] is not None and line["gsm8k_avg"] is None
    found = row(rows(tmp_path, "4"), table="4(d)", dataset="GSM8K")
    assert found["split_4_b"] is not None and found["pooled_b"] is None
    for condition in ("dense", "kvcomm:gamma=0.3"):
        cell_log(tmp_path, condition, agents=5)
    _read.cache_clear()
    assert row(rows(tmp_path, "3"), part="Accuracy", method="KVComm")["gsm8k_avg"] is not None
    assert row(rows(tmp_path, "4"), table="4(d)", dataset="GSM8K")["pooled_b"] is not None


def test_the_papers_gate_is_preferred_and_another_is_named(tmp_path: Path) -> None:
    for gamma, right in ((0.3, "wrong"), (1.0, "correct")):
        cell_log(tmp_path, f"cacheblend:gamma={gamma},match=cost", outcomes=[right] * 4)
        cell_log(tmp_path, f"kvcomm:gamma={gamma}", outcomes=[right] * 4)
    found = rows(tmp_path, "3")
    blend, kvcomm = (row(found, part="Accuracy", method=name) for name in ("CacheBlend, cost-matched", "KVComm"))
    assert (blend["gsm8k_3"], kvcomm["gsm8k_3"]) == (1.0, 0.0), "App. D: CacheBlend ran at gamma 1.0 on GSM8K"
    cell_log(tmp_path, "bcr-single:gamma=0.7")
    _read.cache_clear()
    assert "the run is bcr-single:gamma=0.7, the paper's is bcr-single:gamma=0.3" in notes(tmp_path, "3")


def test_a_block_that_a_run_did_not_finish_is_missing(tmp_path: Path) -> None:
    cell_log(tmp_path, "dense", outcomes=["correct"] * 120)
    cell_log(tmp_path, "kvcomm:gamma=0.3", outcomes=["correct"] * 70, status=None, size=120)
    found = {each["problems"]: each["kvcomm"] for each in rows(tmp_path, "6")}
    assert found == {"1-60": 1.0, "61-120": None, "1-120": None}
