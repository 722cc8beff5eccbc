"""Shared option stacks: a run's settings, spelled the same on every command."""

from __future__ import annotations

from functools import wraps
from typing import Any, Callable, TypeVar, cast

import click

from bcrbench.sweep.executors import checked
from bcrbench.sweep.executors.base import Where

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = [
    click.option(
        "--task",
        metavar="NAME",
        help="Benchmark: quotes (bundled), gsm8k, mmlu, humaneval, copymachine.  [default: quotes]",
    ),
    click.option("--data", metavar="FILE|HUB", help="Items: a file, or a hub data set by name; see docs/tasks.md."),
    click.option(
        "--model",
        metavar="MODEL",
        help="bundled, random:SHAPE, a folder with safetensors, a .gguf file, or a hub id.  [default: bundled]",
    ),
    click.option("--agents", type=int, metavar="N", help="Workers, 1 to 5, before the deciding node.  [default: 3]"),
    click.option("--topology", metavar="NAME", help="full, chain, star or layered.  [default: full]"),
    click.option("--roles", metavar="SPEC", help="cycle, or pin:ROLE.  [default: cycle]"),
    click.option("--prompts", metavar="FILE", help="Another prompt set (YAML)."),
    click.option("--grader", metavar="NAME", help="How answers are graded; the task's default otherwise."),
    click.option(
        "--allow-code-execution",
        is_flag=True,
        default=None,
        help="Run programs that models write, in the sandbox; without it nothing is run.",
    ),
    click.option("--retrieval", metavar="FILE", help="Recorded pages (JSONL) for agents that look things up."),
    click.option("--limit", type=int, metavar="N", help="Only the first N items (marked in every table)."),
    click.option("--ids", metavar="ID,ID", help="Only these items (marked in every table)."),
    click.option("--order", metavar="NAME", help="Of the items: task, or shuffle:SEED.  [default: task]"),
    click.option("--seed", type=int, metavar="N", help="Seed of the run's random streams.  [default: 0]"),
    click.option("--device", metavar="NAME", help="auto, cpu, cuda or cuda:N.  [default: auto]"),
    click.option("--dtype", metavar="NAME", help="auto, float32, bfloat16 or float16.  [default: auto]"),
    click.option("--kernel", metavar="NAME", help="auto, sdpa, tiles, blocks, flex or flash.  [default: auto]"),
    click.option(
        "--threads",
        type=int,
        metavar="N",
        help="CPU threads.  [default: OMP_NUM_THREADS, else 1 for a small model and all cores for a large one]",
    ),
    click.option("--max-new-tokens", type=int, metavar="N", help="Longest generation; the task's own otherwise."),
    click.option("--dry-run", is_flag=True, help="Resolve everything, print the first prompt, load no model."),
]
_LOGGED = [
    click.option(
        "--twins/--no-twins",
        default=None,
        help="Serve each reused call by a full prefill, too, and log both times.  [default: as the task says]",
    ),
    click.option(
        "--warm-up",
        type=int,
        metavar="N",
        help="Reused calls whose times are left out, from a run's first on.  [default: 2 with twins, else 0]",
    ),
    click.option("--out", metavar="DIR", help="Where run logs go.  [default: runs]"),
]

_WHERE = [
    click.option(
        "--executor", default="local", metavar="NAME", help="local, or ray (needs bcrbench[ray]).  [default: local]"
    ),
    click.option(
        "--address", metavar="ADDR", help="Ray: the cluster to join, auto or HOST:PORT; else one of this machine."
    ),
    click.option(
        "--num-gpus",
        type=float,
        metavar="N",
        help="Ray: GPUs a run, also a part of one.  [default: 1 where there are any]",
    ),
    click.option("--workers", type=int, metavar="N", help="Ray: runs at once.  [default: what there is room for]"),
]


def cell_options(command: F) -> F:
    """What items are run on, and how: the options of a command that keeps no log."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def run_options(command: F) -> F:
    """The options that every command which logs runs shares."""
    for option in reversed(_LOGGED):
        command = option(command)
    return cell_options(command)


def executor_options(command: F) -> F:
    """Where runs are carried out, packed into one argument `where`; no setting, as no log holds it."""

    @wraps(command)
    def packed(
        *args: Any, executor: str, address: str | None, num_gpus: float | None, workers: int | None, **rest: Any
    ) -> Any:
        return command(*args, where=checked(Where(executor, address, num_gpus, workers)), **rest)

    for option in reversed(_WHERE):
        packed = option(packed)
    return cast(F, packed)
