"""Time `bcrbench stats` on many logs, one core, process start and imports included.

    python tests/bench/bench_stats.py [--logs 100] [--items 300] [--repeat 5] [-- --table 3]

The logs are made in a temporary directory, or once in --folder; each line holds six calls, some 13 kB. The target is
2 s and 500 MB. What follows `--` is handed to the command instead of `--vs dense`.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "stats")]

COMMAND = "from bcrbench.cli.main import main; main()"


def make_logs(folder: Path, logs: int, items: int, agents: int = 3) -> None:
    """Ten conditions a cell, as a sweep over agents and models would leave them."""
    from loglines import write_log

    rng = random.Random(0)
    for number in range(logs):
        cell, place = divmod(number, 10)
        condition = "dense" if place == 0 else f"kvcomm:gamma=0.{place}"
        outcomes = [rng.random() < 0.8 for _ in range(items)]
        write_log(folder / f"{number:03}.jsonl", condition, outcomes, seed=number, cell={"model": f"w{cell}"}, agents=5,
                  model={"weights_hash": f"w{cell}", "spec": f"model-{cell}"})  # fmt: skip


def timed(folder: Path, options: list[str]) -> tuple[float, float]:
    """Seconds of wall and of processor time of one run of the command on one core."""
    arguments = [sys.executable, "-c", COMMAND, "stats", str(folder), "--format", "json", *options]
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(arguments, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    os.sched_setaffinity(0, cores)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Make the logs, time the command, print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the logs are, or are made when there are none")
    parser.add_argument("options", nargs="*", default=["--vs", "dense"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder: Path = given.folder or Path(name)
        folder.mkdir(exist_ok=True)
        if not list(folder.glob("*.jsonl")):
            make_logs(folder, given.logs, given.items)
        size = sum(path.stat().st_size for path in folder.glob("*.jsonl"))
        wall, cpu = map(sorted, zip(*(timed(folder, given.options) for _ in range(given.repeat)), strict=True))
    print(
        f"{given.logs} logs of {given.items} items, {size / 1e6:.0f} MB, {size / given.logs / given.items:.0f} B a line"
    )
    middle = given.repeat // 2
    print(f"wall: best {wall[0]:.2f} s, median {wall[middle]:.2f} s, worst {wall[-1]:.2f} s")
    print(f"processor: median {cpu[middle]:.2f} s")
    print(f"memory: at most {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
