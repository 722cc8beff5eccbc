"""Wall time of `bcrbench --help` and of each command's help: python tests/bench/bench_help.py

A fresh process each time, by the installed script where there is one. The least is
the cost; the rest is the machine.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from time import perf_counter

from bcrbench.cli.main import COMMANDS

RUNS = 10
SCRIPT = Path(sys.executable).with_name("bcrbench")
START = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "bcrbench"]


def seconds(words: list[str]) -> list[float]:
    """Wall seconds of each run, sorted."""
    times = []
    for _ in range(RUNS):
        begin = perf_counter()
        subprocess.run([*START, *words], check=True, capture_output=True)
        times.append(perf_counter() - begin)
    return sorted(times)


def main() -> None:
    """Print one line a command."""
    for words in (["--help"], *([name, "--help"] for name in COMMANDS)):
        times = seconds(words)
        print(f"bcrbench {' '.join(words):<18} least {times[0]:.3f} s, median {times[len(times) // 2]:.3f} s")


if __name__ == "__main__":
    main()
