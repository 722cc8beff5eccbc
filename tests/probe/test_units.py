"""The probe as a run: what it logs, how it continues, what it refuses, and what the command prints."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from bcrbench.cli.main import main
from bcrbench.cli.stats import stats
from bcrbench.errors import UserError
from bcrbench.probe import options
from bcrbench.probe.options import UnitOptions
from bcrbench.probe.texts import BETWEEN, long_texts
from bcrbench.probe.units import Variant, run_units, variants
from bcrbench.runs.log import Log, read_log
from bcrbench.runs.runner import Cancelled
from bcrbench.runs.schema import ProbeRecord
from bcrbench.settings import Settings
from bcrbench.tasks.base import Item

SMALL = UnitOptions(segment_tokens=48, prompts=2, units=(1, 16), seeds=(0, 1), anchors=2)
EACH = 1 + 2 * (2 * (1 + 2)) + 2  # nothing; two units by attention and two coins, by both operators; everything


def settings(out: Path, **changes: Any) -> Settings:
    return Settings(model="random:tiny", out=str(out), **changes)


def quiet(line: str) -> None:
    pass


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_units(settings(tmp_path_factory.mktemp("runs")), SMALL, quiet)


def measurements(path: Path) -> list[ProbeRecord]:
    """What was measured, without how long it took."""
    return [msgspec.structs.replace(probe, wall_s=0.0) for probe in read_log(path).probes]


def test_every_variant_of_every_prompt_is_a_line(log: Path) -> None:
    read: Log[Any] = read_log(log)
    assert read.status == "complete"
    keys = {(p.prompt, p.unit, p.chooser, p.operator, p.seed) for p in read.probes}
    assert len(keys) == len(read.probes) == 2 * EACH == 2 * len(variants(SMALL))
    assert {p.segment for p in read.probes} == {48}
    assert all(p.budget == p.rows / 48 and p.error >= 0 for p in read.probes)
    assert {(p.unit, p.rows) for p in read.probes} == {(0, 0), (1, 10), (16, 16), (48, 48)}
    assert read.end is not None
    assert read.end.wall_s == pytest.approx(sum(p.wall_s for p in read.probes), abs=0.01)


def test_the_run_record_says_what_was_done(log: Path) -> None:
    run = read_log(log).run
    assert run.condition == "units:segment_tokens=48,prompts=2,units=1_16,seeds=0_1,anchors=2"
    assert run.effective["probe"] == "units"
    assert run.effective["reuse"]["gamma"] == 1.0
    assert run.effective["role"] == "north clerk"
    assert len(run.effective["texts"]) == 4
    assert run.seeds["coin"] == [0, 1]
    assert run.given["model"] == "random:tiny"
    assert run.given["segment_tokens"] == 48
    assert "rho" not in run.given


def test_whole_segments_leave_no_error_and_no_repair_does(log: Path) -> None:
    for probe in read_log(log).probes:
        if probe.chooser == "all":
            assert probe.error <= (0 if probe.operator == "transplant" else 1e-5)
        elif probe.chooser == "none":
            assert probe.error > 1e-4


def test_a_complete_log_is_left_alone(log: Path) -> None:
    before = log.read_bytes()
    said: list[str] = []
    assert run_units(settings(log.parent), SMALL, said.append) == log
    assert "nothing to do" in said[-1]
    assert log.read_bytes() == before


def test_other_options_or_items_are_another_log(log: Path, tmp_path: Path) -> None:
    first = read_log(log).run.fingerprint
    more = UnitOptions(segment_tokens=48, prompts=2, units=(1, 16), seeds=(0, 2), anchors=2)
    assert read_log(run_units(settings(tmp_path), more, quiet)).run.fingerprint != first
    assert read_log(run_units(settings(tmp_path, limit=50), SMALL, quiet)).run.fingerprint != first


@pytest.mark.parametrize("lines", [1, 2, 1 + EACH, 4 + EACH])
def test_a_killed_probe_continues_to_the_same_measurements(log: Path, tmp_path: Path, lines: int) -> None:
    path = tmp_path / log.name
    whole = log.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:lines]) + whole[lines][:30])
    assert run_units(settings(tmp_path), SMALL, quiet) == path
    assert measurements(path) == measurements(log)
    assert read_log(path).status == "complete"


def test_a_stopped_probe_says_so_and_continues(log: Path, tmp_path: Path) -> None:
    def stop_at_second(line: str) -> None:
        if line.startswith("prompt 2"):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Cancelled):
        run_units(settings(tmp_path), SMALL, stop_at_second)
    path = tmp_path / log.name
    assert read_log(path).status == "cancelled"
    assert measurements(path) == measurements(log)[:EACH]
    run_units(settings(tmp_path), SMALL, quiet)
    assert measurements(path) == measurements(log)


def test_texts_are_of_the_asked_length_and_share_no_item() -> None:
    items = [Item(id=f"i{n}", question="w" * (3 + n), gold="") for n in range(12)]

    class Letters:
        def encode(self, text: str, add_special_tokens: bool) -> list[int]:
            return [ord(letter) for letter in text]

    texts = long_texts(Letters(), items, 3, 20)
    assert [(text.first, text.last) for text in texts] == [("i0", "i3"), ("i4", "i6"), ("i7", "i8")]
    whole = "".join(item.question + BETWEEN for item in items[:4])
    assert [chr(i) for i in texts[0].ids] == list(whole[:20])
    assert {len(text.ids) for text in texts} == {20}
    with pytest.raises(UserError, match="12 items give 4 texts of 20 tokens, expected 9"):
        long_texts(Letters(), items, 9, 20)


def test_a_unit_as_long_as_the_segment_is_the_whole_segment() -> None:
    short = UnitOptions(segment_tokens=64, units=(1, 64, 256))
    assert {way.unit for way in variants(short)} == {0, 1, 64}
    assert Variant(64, "all", "transplant") in variants(short)


@pytest.mark.parametrize(
    ("field", "value"),
    [("segment_tokens", 0), ("prompts", 0), ("k", 0), ("k", 9), ("anchors", 1), ("anchors", 21), ("rho", -0.1),
     ("rho", 1.1), ("units", ()), ("units", (0, 1)), ("units", (4, 4)), ("seeds", ()), ("seeds", (-1,))],
)  # fmt: skip
def test_options_that_cannot_be_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"{field}=.*expected"):
        UnitOptions(**{field: value})


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({}, UnitOptions(segment_tokens=40_000), "segment of 40000 tokens: model 'random:tiny' holds 32768 positions"),
        ({"limit": 3}, SMALL, "3 items give 2 texts of 48 tokens, expected 4"),
        ({"task": "qoutes"}, SMALL, "unknown task"),
    ],
)
def test_what_cannot_be_measured_is_refused_and_leaves_nothing(
    tmp_path: Path, changes: dict[str, Any], options: UnitOptions, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        run_units(settings(tmp_path / "runs", **changes), options, quiet)
    assert list(tmp_path.iterdir()) == []


def command(*arguments: Any) -> Result:
    return CliRunner().invoke(stats, [str(argument) for argument in arguments], catch_exceptions=False)


def test_the_command_measures_and_stats_tabulates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(options, "UnitOptions", lambda **_: SMALL)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["repair", "--probe", "units", "--model", "random:tiny", "--out", "runs"])
    out, err = capsys.readouterr()
    assert stop.value.code == 0, err
    path = Path(out.strip())
    rows = json.loads(command(path, "--format", "json").stdout)
    assert [(row["operator"], row["unit"]) for row in rows] == [
        (operator, unit) for operator in ("transplant", "recompute") for unit in (1, 16, 48)
    ]
    assert {row["prompts"] for row in rows} == {2}
    table = command(path)
    assert "transplant: task quotes, model random:tiny, role north clerk, 48 tokens, 2 prompts" in table.stdout
    assert "units 16 are not budget-matched" in table.stderr


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["--segment", "256", "--limit", "1000"], "nothing was run"),
        (["--segment", "2048", "--limit", "1000"], "expected at most 490 tokens"),
        (["--segment", "256", "--limit", "100"], "expected 9 for anchors and prompts"),
    ],
)
def test_a_dry_run_refuses_what_the_probe_would(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["repair", "--probe", "units", "--dry-run", *arguments])
    out, err = capsys.readouterr()
    assert told in out + err
    assert stop.value.code == (0 if told == "nothing was run" else 2)
    assert not list(tmp_path.iterdir())
