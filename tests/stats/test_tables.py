"""Every format parses back to the numbers that the logs hold."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from loglines import write_log

from bcrbench.runs.log import read_outcomes
from bcrbench.stats.intervals import wilson
from bcrbench.stats.report import Options, report
from bcrbench.stats.summary import COLUMNS

DENSE = [True] * 57 + [False] * 3
ROW = [False] * 24 + [True] * 36


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [
        write_log(tmp_path / "a.jsonl", "dense", DENSE),
        write_log(tmp_path / "b.jsonl", "kvcomm:gamma=0.3,frame=canonical_x", ROW),
    ]


def text(paths: list[Path], fmt: str, **options: Any) -> str:
    return report([read_outcomes(path) for path in paths], Options(**options), fmt).text


def cells(line: str, fmt: str) -> list[str]:
    splitters = {"table": r"\s{2,}", "md": r"\s*\|\s*", "latex": r"\s*&\s*"}
    parts = re.split(splitters[fmt], line.strip().strip("|").removesuffix(r"\\").strip())
    return [part.replace(r"\_", "_").replace(r"\ensuremath{<}", "<") for part in parts]


def parse(out: str, fmt: str) -> list[dict[str, str]]:
    lines = [line for line in out.splitlines() if re.search(r"\w", line) and not re.match(r"\s*\\[a-z]", line)]
    heads, *rows = [cells(line, fmt) for line in lines if not re.fullmatch(r"[-:| ]+", line)]
    return [dict(zip(heads, row, strict=True)) for row in rows]


def test_json_has_the_agreed_keys_and_full_precision(paths: list[Path]) -> None:
    dense, row = json.loads(text(paths, "json"))
    assert tuple(dense) == tuple(row) == COLUMNS
    assert (dense["b"], dense["c"], dense["discordant"], dense["p"]) == (None,) * 4
    assert (row["b"], row["c"], row["discordant"]) == (24, 3, 27)
    assert row["accuracy"] == 36 / 60
    assert (row["ci_low"], row["ci_high"]) == wilson(36, 60)
    items = read_outcomes(paths[1]).items
    calls = [call for item in items for call in item.calls]
    assert row["reuse_rate"] == pytest.approx(sum(call.served == "reuse" for call in calls) / len(calls))
    assert row["rows_recomputed"] == pytest.approx(sum(call.rows.recomputed for call in calls) / len(calls))
    ttft, wall = sorted(call.ttft_ms for call in calls), sorted(1000 * item.wall_s for item in items)
    assert row["ttft_ms"] == pytest.approx((ttft[119] + ttft[120]) / 2)
    assert row["e2e_ms"] == pytest.approx((wall[29] + wall[30]) / 2)


def test_csv_holds_what_json_holds(paths: list[Path]) -> None:
    options = {"difference": True, "agents": True, "latency": True}
    rows = list(csv.DictReader(io.StringIO(text(paths, "csv", **options))))
    for row, expected in zip(rows, json.loads(text(paths, "json", **options)), strict=True):
        for name, value in expected.items():
            if not isinstance(value, list):
                assert row[name] == ("" if value is None else str(value))
        (clerk,) = expected["by_role"]
        assert float(row["accuracy_clerk"]) == clerk["accuracy"] and row["right_clerk"] == str(clerk["right"])
        assert float(row["q3_ttft_ms"]) == expected["times"][0]["q3"]


@pytest.mark.parametrize("fmt", ["table", "md", "latex"])
def test_readers_formats_parse_back_rounded(paths: list[Path], fmt: str) -> None:
    exact = json.loads(text(paths, "json"))
    rows = parse(text(paths, fmt), fmt)
    assert [row["condition"] for row in rows] == ["dense", "kvcomm:gamma=0.3,frame=canonical_x"]
    for row, full in zip(rows, exact, strict=True):
        assert tuple(row) == COLUMNS
        assert row["accuracy"] == f"{100 * full['accuracy']:.1f}"
        assert row["reuse_rate"] == f"{100 * full['reuse_rate']:.1f}"
        assert row["ttft_ms"] == f"{full['ttft_ms']:.1f}"
        assert row["b"] == ("-" if full["b"] is None else str(full["b"]))
    assert [row["p"] for row in rows] == ["-", "<0.001"]


def test_p_has_three_decimals(tmp_path: Path, paths: list[Path]) -> None:
    close = write_log(tmp_path / "c.jsonl", "kvcomm:gamma=0.1", [False] * 2 + DENSE[2:])
    assert parse(text([paths[0], close], "md"), "md")[1]["p"] == "0.500"


def test_several_cells_are_titled_for_readers_and_keyed_for_programs(tmp_path: Path, paths: list[Path]) -> None:
    more = [
        write_log(tmp_path / f"{name}5.jsonl", name, DENSE, cell={"agents": 5}, agents=5)
        for name in ("dense", "kvcomm")
    ]
    for fmt in ("table", "md", "latex"):
        out = text([*paths, *more], fmt)
        assert [line for line in out.splitlines() if "agents 3" in line and "model bundled" in line]
        assert [line for line in out.splitlines() if "agents 5" in line and "60 items (set0)" in line]
        assert "agents" not in text(paths, fmt)
    rows = json.loads(text([*paths, *more], "json"))
    assert [row["agents"] for row in rows] == [3, 3, 5, 5] and rows[0]["model"] == "bundled"
    assert [row["agents"] for row in csv.DictReader(io.StringIO(text([*paths, *more], "csv")))] == ["3", "3", "5", "5"]
    assert tuple(json.loads(text(paths, "json"))[0]) == COLUMNS


def test_models_of_one_name_are_told_apart(tmp_path: Path) -> None:
    paths = [
        write_log(tmp_path / f"{k}.jsonl", "dense", DENSE, cell={"model": f"w{k}"}, model={"weights_hash": f"w{k}"})
        for k in range(2)
    ]
    assert [row["model"] for row in json.loads(text(paths, "json"))] == ["bundled@w0", "bundled@w1"]


def test_the_difference_has_its_sign_and_interval(paths: list[Path]) -> None:
    dense, row = json.loads(text(paths, "json", difference=True))
    assert dense["difference"] is None
    assert row["difference"] == pytest.approx(36 / 60 - 57 / 60)
    assert -1 <= row["diff_low"] < row["difference"] < row["diff_high"] < 0
    turned = json.loads(text(paths, "json", difference=True, vs="kvcomm"))[1]
    assert (turned["diff_low"], turned["diff_high"]) == pytest.approx((-row["diff_high"], -row["diff_low"]))


def test_roles_are_counted_where_they_have_golds(paths: list[Path]) -> None:
    right = {}
    for path in paths:
        log = read_outcomes(path)
        right[log.run.condition] = sum(call.outcome == "correct" for item in log.items for call in item.calls)
    for row in json.loads(text(paths, "json", agents=True)):
        (clerk,) = row["by_role"]
        assert (clerk["role"], clerk["n"], clerk["right"]) == ("clerk", 180, right[row["condition"]])
    assert "accuracy by role" in text(paths, "table", agents=True)


def test_speedups_pair_calls_with_the_reference(paths: list[Path]) -> None:
    dense, row = json.loads(text(paths, "json", latency=True))
    assert [time["time"] for time in row["times"]] == ["ttft_ms", "e2e_ms"]
    assert dense["times"][0]["mean_of_ratios"] is None
    means = [one["times"][1]["mean"] for one in (dense, row)]
    assert row["times"][1]["ratio_of_means"] == pytest.approx(means[0] / means[1])
    out = text(paths, "table", latency=True)
    assert "times in ms" in out and f"{row['times'][1]['ratio_of_means']:.2f}x" in out


def test_an_empty_run_has_no_accuracy(tmp_path: Path) -> None:
    paths = [write_log(tmp_path / f"{name}.jsonl", name, []) for name in ("dense", "kvcomm")]
    rows = json.loads(text(paths, "json", difference=True, latency=True))
    assert [row["accuracy"] for row in rows] == [None, None] and rows[1]["p"] == 1.0
    for fmt in ("table", "md", "latex", "csv"):
        assert "kvcomm" in text(paths, fmt, latency=True, agents=True, difference=True)


NASTY = "\x1b[31m|x\ny\u202ez\\input{f}&%$#\r\x07\u2028<b>`[a](b)*\x9b\U000e0001"


@pytest.mark.parametrize("fmt", ["table", "md", "latex", "csv", "json"])
def test_names_from_a_log_are_inert_in_every_format(tmp_path: Path, fmt: str) -> None:
    paths = [write_log(tmp_path / "a.jsonl", "dense", DENSE), write_log(tmp_path / "b.jsonl", NASTY, ROW)]
    role = re.compile(r'"role": ?"clerk"')
    assert role.search(paths[0].read_text())
    paths[0].write_text(role.sub(lambda _: f'"role":{json.dumps(NASTY)}', paths[0].read_text()))
    out = text(paths, fmt, agents=True, latency=True, difference=True)
    assert [char for char in out if not char.isprintable() and char != "\n"] == []
    if fmt == "json":
        assert NASTY in {row["condition"] for row in json.loads(out)}
    elif fmt == "csv":
        assert len(list(csv.reader(io.StringIO(out)))) == len(out.splitlines()) == 3
    elif fmt == "md":
        rows = [line for line in out.splitlines() if line.startswith("|")]
        assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} <= {19, 14, 10, 9}
        assert re.findall(r"(?<!\\)[`\[*]", "\n".join(rows)) == []
    elif fmt == "latex":
        assert "\\input" not in out


@pytest.mark.parametrize("name", ['=cmd|"/c calc"!A1', "+1+1", "-1+1", "@SUM(A1)"])
def test_no_name_is_a_formula_in_a_spreadsheet(tmp_path: Path, name: str) -> None:
    paths = [write_log(tmp_path / "a.jsonl", "dense", DENSE), write_log(tmp_path / "b.jsonl", name, ROW)]
    role = re.compile(r'"role": ?"clerk"')
    paths[0].write_text(role.sub(lambda _: f'"role":{json.dumps(name)}', paths[0].read_text()))
    rows = list(csv.reader(io.StringIO(text(paths, "csv", agents=True))))
    assert f"'{name}" in {row[0] for row in rows}
    assert [cell for row in rows for cell in row if cell.startswith(("=", "+", "@")) or cell == name] == []
    assert name in {row["condition"] for row in json.loads(text(paths, "json"))}


def test_what_no_float_holds_is_null_in_json_and_empty_in_csv(tmp_path: Path) -> None:
    paths = [write_log(tmp_path / f"{name}.jsonl", name, [name == "dense"] * 1100, agents=0) for name in ("dense", "x")]

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    rows = json.loads(text(paths, "json", sequential=True), parse_constant=refuse)
    assert [row["e"] for row in rows if row.get("analysis")] == [None]
    assert [row["e"] for row in csv.DictReader(io.StringIO(text(paths, "csv", sequential=True)))] == [""] * 3
