"""A real Ray of this machine: one of two workers is killed during a run, and the logs are the local executor's.

Slow for a test (Ray's own start and stop take most of it), and skipped where Ray is not installed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from planned import records

from bcrbench.cli.main import main

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'bcrbench[ray]'")

LIMIT = 4
CONDITIONS = ["dense", "kvcomm:gamma=0.7", "kvcomm:gamma=1.0"]
SWEEP = [
    "sweep",
    "--agents",
    "2",
    "--limit",
    str(LIMIT),
    *(word for name in CONDITIONS for word in ("--conditions", name)),
]
VICTIM = "*gamma=1.0*"


def items(log: Path) -> int:
    """Whole item lines in a log."""
    return log.read_bytes().count(b'\n{"record":"item"')


class Killer(threading.Thread):
    """Kills the process that writes the victim's log, once that log holds an item; notes who was there then."""

    def __init__(self, out: Path) -> None:
        super().__init__(daemon=True)
        self.out = out
        self.killed = self.before = 0
        self.family: set[int] = set()
        self.open: set[str] = set()

    def run(self) -> None:
        """Look until it is done."""
        while not self.killed:
            time.sleep(0.005)
            for lock in self.out.glob(VICTIM + ".lock"):
                with suppress(OSError, ValueError):
                    self._look(int(lock.read_text()), lock.with_suffix(""))

    def _look(self, holder: int, log: Path) -> None:
        before = items(log)
        if 1 <= before < LIMIT:
            os.kill(holder, signal.SIGKILL)
            self.killed, self.before = holder, before
            self.family = descendants(os.getpid()) - {os.getpid()}
            self.open = listening(self.family)


def listening(pids: set[int]) -> set[str]:
    """Local addresses on which processes accept connections, from the kernel's tables."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            with suppress(OSError):
                inodes.add(os.readlink(link).removeprefix("socket:[").rstrip("]"))
    found = set()
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = row.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.add(fields[1].partition(":")[0])
    return found


def descendants(pid: int) -> set[int]:
    """Processes below one, itself included."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


STOPS_IN_S = 30.0  # a worker leaves by itself once its raylet is gone, a moment after the driver has its results


def left_of(pids: set[int]) -> dict[int, str]:
    """The processes that still run, with their command lines, once they have had time to stop."""
    until = time.monotonic() + STOPS_IN_S
    while (left := {pid: line for pid in pids if (line := command_line(pid))}) and time.monotonic() < until:
        time.sleep(0.1)
    return left


def command_line(pid: int) -> str:
    """A process's command line; empty for one that is gone, or that is dead and only not waited for."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_killed_worker_is_retried_and_the_logs_equal_the_local_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # for workers, where the package is not installed
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # Ray keeps a token of its local clusters there
    killer = Killer(tmp_path / "ray")
    killer.start()
    with pytest.raises(SystemExit) as stop:
        main([*SWEEP, "--out", "ray", "--executor", "ray", "--workers", "2"])
    out, err = capfd.readouterr()
    assert stop.value.code == 0, err
    assert killer.killed and 1 <= killer.before < LIMIT and "resuming after" in err, err
    assert killer.open and killer.open <= LOOPBACK, f"open to others: {killer.open - LOOPBACK}"
    there = {path.name: records(path) for path in sorted((tmp_path / "ray").iterdir())}
    assert sorted(Path(line).name for line in out.splitlines()) == list(there), "standard output names the logs alone"
    assert left_of(killer.family) == {}, "Ray was not stopped"
    with pytest.raises(SystemExit):
        main([*SWEEP, "--out", "here"])
    here = {path.name: records(path) for path in sorted((tmp_path / "here").iterdir())}
    assert here == there
