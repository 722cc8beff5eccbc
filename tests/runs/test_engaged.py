"""A repair condition that repaired nothing in a whole run fails it, with counts and reasons, and stays resumable."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from bcrbench.cli.main import main
from bcrbench.runs.engaged import engagement
from bcrbench.runs.log import Log, read_log
from bcrbench.runs.schema import ItemRecord

SWEEP = ["sweep", "--model", "random:tiny", "--agents", "1", "--limit", "4", "--max-new-tokens", "3", "--out"]


def _sweep(folder: Path, condition: str) -> tuple[int, Log[ItemRecord]]:
    with pytest.raises(SystemExit) as stop:
        main([*SWEEP, str(folder), "--conditions", condition])
    (path,) = folder.glob("*.jsonl")
    return int(stop.value.code or 0), read_log(path)


def test_a_repair_that_never_engaged_fails_its_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, log = _sweep(tmp_path, "bcr-chunk:gamma=1.0,B=4096")
    seen = engagement(log.items)
    assert code == 1
    assert seen.reused > 0
    assert seen.repaired == 0
    assert log.status == "failed"
    assert log.end is not None
    for place in (log.end.why, capsys.readouterr().err):
        assert f"never engaged: {seen.reused} of 8 calls reused, 0 repaired, {seen.reused} skipped" in place
        assert f"(M < 2B = 8192 rows: {seen.reused})" in place


def test_the_failed_run_is_taken_up_again_and_judged_the_same(tmp_path: Path) -> None:
    _, before = _sweep(tmp_path, "bcr-chunk:gamma=1.0,B=4096")
    code, after = _sweep(tmp_path, "bcr-chunk:gamma=1.0,B=4096")
    assert code == 1
    assert after.items == before.items
    assert after.end is not None and before.end is not None
    assert replace(after.end, memory=None) == replace(before.end, memory=None)


@pytest.mark.parametrize(
    "condition",
    ["bcr-single:gamma=1.0", "bcr-single:gamma=1.0,rho=0.0", "cacheblend:gamma=1.0,match=reuse:1.0", "kvcomm"],
)
def test_a_repair_that_engaged_or_was_to_do_nothing_is_complete(tmp_path: Path, condition: str) -> None:
    code, log = _sweep(tmp_path, condition)
    assert code == 0
    assert log.status == "complete"
    assert (engagement(log.items).repaired > 0) == (condition == "bcr-single:gamma=1.0")


def test_skips_are_in_the_log_with_their_reason(tmp_path: Path) -> None:
    _, log = _sweep(tmp_path, "bcr-single:gamma=1.0,rho=0.0")
    calls = [call for item in log.items for call in item.calls]
    assert {call.skipped for call in calls if call.served == "reuse"} == {"rho*M rounds to 0 rows"}
    assert {call.skipped for call in calls if call.served == "dense"} == {None}
