"""A run killed at any point and resumed equals an uninterrupted one in everything that is not a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DRIVER = Path(__file__).with_name("kill_driver.py")
TIMES = {"ms", "ttft_ms", "e2e_ms", "wall_s", "started", "memory"}
RUN = ["--model", "random:tiny", "--limit", "14", "--max-new-tokens", "6", "--agents", "2"]


def drive(seed: int, kills: int, out: Path, *command: str) -> list[int]:
    """Items logged at each kill; the run is complete afterwards."""
    words = [sys.executable, str(DRIVER), str(seed), str(kills), *command, *RUN, "--out", str(out)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split() if line.isdigit()]


def timeless(value: Any) -> Any:
    """A record without its times, at any depth."""
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if key not in TIMES}
    return [timeless(part) for part in value] if isinstance(value, list) else value


def records(folder: Path) -> list[Any]:
    """All records of the folder's one log, without what differs on purpose: `out`, and the commit, which may move."""
    [path] = folder.glob("*.jsonl")
    found = [timeless(json.loads(line)) for line in path.read_text().splitlines()]
    for part in ("given", "resolved"):
        del found[0][part]["out"]
    del found[0]["code"]
    return found


COIN = ("repair", "--layout", "single", "--select", "coin", "--gamma", "1.0")  # its stream must go on where it was


@pytest.mark.parametrize("command", [("reuse", "--gamma", "1.0"), COIN, ("prefill",)])
def test_killed_ten_times_equals_uninterrupted(tmp_path: Path, command: tuple[str, ...]) -> None:
    at_kill = drive(7, 10, tmp_path / "killed", *command)
    drive(0, 0, tmp_path / "whole", *command)
    assert at_kill == sorted(at_kill), "a resumed run lost items"
    assert len(set(at_kill)) > 3, f"the kills did not land inside the run: {at_kill}"
    killed, whole = records(tmp_path / "killed"), records(tmp_path / "whole")
    assert killed == whole
    served = {call["served"] for record in whole[1:-1] for call in record["calls"]}
    assert served == ({"dense"} if command[0] == "prefill" else {"dense", "reuse"})
    assert whole[-1]["status"] == "complete"


def test_replay_refuses_another_history(tmp_path: Path) -> None:
    drive(0, 0, tmp_path, "reuse", "--gamma", "1.0")
    [path] = tmp_path.glob("*.jsonl")
    lines = path.read_text().splitlines()[:6]
    item = json.loads(lines[3])
    item["calls"][0]["ids"][2] += 1  # another response than the one that made the pool
    lines[3] = json.dumps(item)
    path.write_text("".join(line + "\n" for line in lines))
    words = [sys.executable, "-m", "bcrbench", "reuse", "--gamma", "1.0", *RUN, "--out", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 1
    assert "pool_hash" in done.stderr and "Traceback" not in done.stderr
    kept = path.read_text().splitlines()
    assert kept[:6] == lines, "nothing that was logged may be lost"
