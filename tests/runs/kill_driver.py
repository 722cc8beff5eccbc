"""Runs a command in forked children, kills them with SIGKILL at random moments, then lets one finish.

A process of its own, so that everything heavy is imported once and the test's process never forks after torch ran.
Usage: kill_driver.py SEED KILLS ARGS...; prints the number of items in the log at each kill.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch  # noqa: F401
import transformers

import bcrbench.engine.loops
import bcrbench.reuse.arithmetic.fused
import bcrbench.sweep.execute  # noqa: F401
from bcrbench.cli.main import main

transformers.AutoModelForCausalLM, transformers.AutoConfig, transformers.PreTrainedTokenizerFast  # noqa: B018


def child(args: list[str]) -> int:
    """Fork a child that runs the command."""
    pid = os.fork()
    if pid == 0:
        try:
            main(args)
        except SystemExit as stop:
            sys.stderr.flush()
            os._exit(stop.code if isinstance(stop.code, int) else 0)
    return pid


def items(folder: Path) -> int:
    """Whole item lines in the one log of the folder."""
    return sum(path.read_bytes().count(b'{"record":"item"') for path in folder.glob("*.jsonl"))


def run(seed: int, kills: int, args: list[str]) -> int:
    """Kill `kills` times, then run to the end; returns the last child's exit code."""
    dice, folder = random.Random(seed), Path(args[args.index("--out") + 1])
    for number in range(kills):
        pid, before = child(args), items(folder)
        # Half of the kills wait for progress first, so that they land between items as well as before any.
        deadline = time.monotonic() + 20
        while number % 2 and items(folder) <= before and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(dice.uniform(0, 0.4))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        print(items(folder), flush=True)
    _, status = os.waitpid(child(args), 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
