"""`bcrbench stats --memory`: a run's figures, beside runs whose logs have none."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from loglines import write_log

from bcrbench.cli.stats import stats
from bcrbench.runs.schema import Memory

MEASURED = Memory(peak=3_000_000_000, peak_since="run", weights=538_000_000, pool=120_500_000, pool_peak=130_000_000,
                  evicted_for_bytes=4)  # fmt: skip


def shown(folder: Path, *options: str) -> tuple[str, str]:
    done = CliRunner().invoke(stats, [str(folder), "--memory", *options], catch_exceptions=False)
    return done.stdout, done.stderr


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    write_log(tmp_path / "dense.jsonl", "dense", [True, False])  # as logs were before schema 3
    path = write_log(tmp_path / "kv.jsonl", "kvcomm:gamma=0.3", [True, True])
    *before, end = path.read_bytes().splitlines(keepends=True)
    line = msgspec.json.encode(json.loads(end) | {"memory": msgspec.to_builtins(MEASURED)})
    path.write_bytes(b"".join(before) + line + b"\n")
    return tmp_path


def test_a_table_of_its_own_without_columns_that_nobody_has(logs: Path) -> None:
    out, notes = shown(logs)
    table = out[out.index(": memory") :].splitlines()
    assert table[1].split() == ["condition", "peak_mb", "weights_mb", "pool_mb", "pool_peak_mb", "since", "evicted"]
    assert table[3].split()[1:] == ["-"] * 6
    assert table[4].split()[1:] == ["3000.0", "538.0", "120.5", "130.0", "run", "4"]
    assert "10^6 bytes" in notes


def test_records_have_all_columns_and_null_for_what_is_not_there(logs: Path) -> None:
    dense, kv = json.loads(shown(logs, "--format", "json")[0])
    assert (kv["peak_mb"], kv["since"], kv["device_peak_mb"]) == (3000.0, "run", None)
    assert {dense[name] for name in ("peak_mb", "weights_mb", "pool_mb", "since", "evicted")} == {None}


def test_without_the_option_nothing_of_it_shows(logs: Path) -> None:
    assert "peak_mb" not in CliRunner().invoke(stats, [str(logs), "--format", "json"]).stdout
