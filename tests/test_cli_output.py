"""Where output goes: a full disk, a closed or broken pipe, an ASCII terminal. One line at most, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BCRBENCH = [sys.executable, "-m", "bcrbench"]


def _run(args: list[str], out: int | None, **environment: str) -> subprocess.CompletedProcess[bytes]:
    where = subprocess.PIPE if out is None else out
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([*BCRBENCH, *args], stdout=where, stderr=subprocess.PIPE, env=surroundings)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("args", [["conditions"], ["--help"], ["sweep", "--help"], ["sweep", "demo", "--dry-run"]])
def test_output_that_finds_no_room_is_one_line_and_1(args: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = _run(args, full.fileno())
    assert done.returncode == 1
    assert done.stderr.decode() == "bcrbench: output: No space left on device\n"


@pytest.mark.parametrize("args", [["conditions"], ["--help"]])
def test_a_reader_that_went_away_is_no_fault_to_speak_of(args: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = _run(args, write)
    os.close(write)
    assert done.returncode in (0, 1)
    assert done.stderr == b""


def test_text_that_a_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"id": "caf\u00e9", "question": "caf\u00e9?", "answer": "#### 3"}\n')
    args = ["sweep", "--model", "random:tiny", "--task", "gsm8k", "--data", str(data), "--dry-run"]
    done = _run(args, None, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert "café".encode() in done.stdout or b"caf\\xe9" in done.stdout


def test_being_told_to_stop_before_a_run_begins_is_130(tmp_path: Path) -> None:
    args = [*BCRBENCH, "prefill", "--model", "random:tiny", "--out", str(tmp_path / "runs")]
    code = "import sys, time, bcrbench.cli.running as r; r.run_plans = lambda *a: (print(flush=True), time.sleep(60))"
    code += f"; from bcrbench.cli.main import main; main({args[3:]!r})"
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
    assert run.stdout is not None
    run.stdout.readline()
    time.sleep(0.2)
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=30)
    assert (run.returncode, err.strip()) == (130, b"bcrbench: stopped")
    assert list(tmp_path.iterdir()) == []
