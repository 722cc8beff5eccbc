"""Runs one after the other in this process, one model load for all that share a model."""

from __future__ import annotations

from collections.abc import Iterator

from bcrbench.engine.quiet import quiet_libraries
from bcrbench.errors import RunFailed, RunRefused
from bcrbench.sweep.execute import Models, execute
from bcrbench.sweep.executors.base import Ended, Say, Where
from bcrbench.sweep.executors.order import Queue
from bcrbench.sweep.plan import Plan


def run(plans: list[Plan], where: Where, say: Say) -> Iterator[Ended]:
    """Carry out the plans in order (base.Executor)."""
    quiet_libraries()
    queue, models = Queue(plans), Models()
    while (plan := queue.take()) is not None:
        end = queue.lost(plan) or _attempt(plan, models, say, len(plans) == 1)
        queue.ended(end)
        yield end


def _attempt(plan: Plan, models: Models, say: Say, alone: bool) -> Ended:
    """Carry out one run; a mistake about it is the command's own where there is no other run."""
    try:
        return Ended(plan, execute(plan, models, say))
    except RunFailed as error:
        return Ended(plan, why=str(error))
    except RunRefused as error:
        if alone:
            raise
        return Ended(plan, why=str(error))
