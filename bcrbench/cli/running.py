"""What prefill, reuse and sweep have in common: plan everything, then run it, or print it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

import click

from bcrbench.errors import RunFailed, inert
from bcrbench.sweep.executors import EXECUTORS
from bcrbench.sweep.executors.base import Where


def say(line: str) -> None:
    """One plain line on standard error."""
    click.echo(inert(line), err=True)


def one_cell(flags: dict[str, Any], conditions: list[str]) -> None:
    """Run conditions in the one cell that the flags describe."""
    from bcrbench.settings import FILE, from_flags, from_folder, resolve
    from bcrbench.sweep.plan import plan

    settings, given = resolve([(FILE, from_folder()), ("flags", from_flags(flags))])
    run_plans(plan(settings, conditions, given), flags["dry_run"])


def run_plans(plans: list[Any], dry_run: bool, where: Where | None = None) -> None:
    """Carry out planned runs. One failing run does not stop the rest; the last lines say which and why."""
    from bcrbench.runs.log import ensure_writable
    from bcrbench.sweep.dry import show

    if dry_run:
        show(plans)
        return
    for folder in {plan.cell.settings.out for plan in plans}:
        ensure_writable(folder)
    where, failed = where or Where(), []
    with stoppable():
        for end in EXECUTORS.get(where.executor)(plans, where, say):
            if end.log is not None:
                click.echo(end.log)
                continue
            failed.append(f"{end.plan.spec.text}: {end.why}")
            say(f"failed: {failed[-1]}")
    if failed:
        raise RunFailed(f"{len(failed)} of {len(plans)} runs failed: " + "; ".join(failed))


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn a run that was stopped on request into exit code 130, and say how to go on."""
    from bcrbench.runs.runner import Cancelled

    try:
        yield
    except Cancelled:
        say("stopped; the same command continues")
        raise click.exceptions.Exit(130) from None
