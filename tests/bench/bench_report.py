"""Time `bcrbench stats --html` on many logs, one core, process start and imports included.

    python tests/bench/bench_report.py [--logs 100] [--items 300] [--agents 5] [--repeat 3]

The logs are made in a temporary directory; each line holds a call an agent and the decision. The targets are 10 s and
15 MB.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from pathlib import Path

from bench_stats import make_logs, timed


def main() -> None:
    """Make the logs, time the command, print times and sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--agents", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, page = Path(name, "logs"), Path(name, "report.html")
        folder.mkdir()
        make_logs(folder, given.logs, given.items, given.agents)
        size = sum(path.stat().st_size for path in folder.iterdir())
        wall, cpu = map(sorted, zip(*(timed(folder, ["--html", str(page)]) for _ in range(given.repeat)), strict=True))
        made = page.stat().st_size
    print(f"{given.logs} logs of {given.items} items of {given.agents + 1} calls, {size / 1e6:.0f} MB")
    middle = given.repeat // 2
    print(f"wall: best {wall[0]:.2f} s, median {wall[middle]:.2f} s; processor: median {cpu[middle]:.2f} s")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"page: {made / 1e6:.1f} MB; memory: {peak:.0f} MB at most")


if __name__ == "__main__":
    main()
