"""Which runs wait for which: a run that is matched to another reads that one's finished log (paper App. A.1 P5, D)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from pathlib import Path
from types import MappingProxyType

from bcrbench.errors import UserError
from bcrbench.runs.matching import Finished, Reuse
from bcrbench.sweep.executors.base import Ended
from bcrbench.sweep.plan import Plan

_EVERYTHING = Reuse(1, 1)
_ANY: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True)
class Questions(Finished):
    """Stands in for finished runs and notes what a policy asks of them."""

    folder: Path = Path()
    cell: dict[str, object] = field(default_factory=dict)
    policies: set[tuple[str, float]] = field(default_factory=set)
    conditions: set[str] = field(default_factory=set)
    logs: set[Path] = field(default_factory=set)

    def of_log(self, path: Path) -> Reuse:
        """Note the log."""
        self.logs.add(path)
        return _EVERYTHING

    def of_condition(self, text: str) -> Reuse:
        """Note the condition."""
        self.conditions.add(text)
        return _EVERYTHING

    def of_policy(self, name: str, gamma: float, alike: Mapping[str, object] = _ANY) -> Reuse:
        """Note the policy and its gamma."""
        self.policies.add((name, gamma))
        return _EVERYTHING

    @property
    def none(self) -> bool:
        """Whether nothing was asked."""
        return not (self.policies or self.conditions or self.logs)


class Queue:
    """Plans in the order given, each held back until those that it is matched to have ended.

    Raises UserError for plans that wait for each other.
    """

    def __init__(self, plans: list[Plan]) -> None:
        self._plans = plans
        self._needs = needs(plans)
        self._index = {id(plan): number for number, plan in enumerate(plans)}
        self._failed: set[int] = set()
        self._ready: list[int] = []
        self._sorter = TopologicalSorter(dict(enumerate(self._needs)))
        try:
            self._sorter.prepare()
        except CycleError as error:
            names = " and ".join({plans[number].spec.text: None for number in error.args[1]})
            raise UserError(f"conditions {names}: each is matched to the other, expected one to come first") from error

    def take(self) -> Plan | None:
        """The next plan that may start now; None while all that are left wait."""
        for number in self._sorter.get_ready():
            heappush(self._ready, number)
        return self._plans[heappop(self._ready)] if self._ready else None

    def lost(self, plan: Plan) -> Ended | None:
        """The end of a plan that cannot be run, because one that it is matched to failed; None for any other."""
        failed = sorted(self._needs[self._index[id(plan)]] & self._failed)
        if not failed:
            return None
        return Ended(plan, why=f"not run: {self._plans[failed[0]].spec.text}, which it waits for, failed")

    def ended(self, end: Ended) -> None:
        """Let those start that waited for this one."""
        number = self._index[id(end.plan)]
        if end.log is None:
            self._failed.add(number)
        self._sorter.done(number)


def needs(plans: list[Plan]) -> list[set[int]]:
    """For each plan the numbers of those that must have ended before it starts."""
    asked = [questions(plan) for plan in plans]
    silent = [asks is not None and asks.none for asks in asked]
    found: list[set[int]] = []
    for number, (plan, asks) in enumerate(zip(plans, asked, strict=True)):
        others = [other for other in range(len(plans)) if other != number]
        answering = {other for other in others if _answers(plans[other], plan, asks, silent[other])}
        twice = {other for other in others if other < number and _same_run(plans[other], plan)}
        found.append(answering | twice)
    return found


def questions(plan: Plan) -> Questions | None:
    """What the plan's condition asks of finished runs; None where that cannot be known beforehand."""
    asks = Questions()
    try:
        plan.spec.policy.resolve(asks)
    except UserError:  # it asked in a way of its own
        return None
    return asks


def _answers(other: Plan, plan: Plan, asks: Questions | None, silent: bool) -> bool:
    """Whether a plan must wait for another one's log."""
    folder = Path(other.cell.settings.out).resolve()
    if asks is None:
        return silent and folder == Path(plan.cell.settings.out).resolve()
    if silent and any(path.resolve().parent == folder for path in asks.logs):
        return True
    if not (asks.policies or asks.conditions) or _cell(other) != _cell(plan):
        return False
    if other.spec.text in asks.conditions:
        return True
    effective = other.spec.policy.effective()
    return (effective.get("policy"), effective.get("gamma")) in asks.policies


def _cell(plan: Plan) -> list[object]:
    """The facts inside which finished runs are looked for, as far as they are known without the model."""
    cell, settings = plan.cell, plan.cell.settings
    roles = [agent.role for agent in cell.agents]
    known = [settings.out, settings.task, settings.model, settings.agents, settings.topology, settings.dtype]
    return [*known, roles, cell.items_hash, cell.max_new_tokens]


def _same_run(other: Plan, plan: Plan) -> bool:
    """Whether both write one log: only one may at a time, and the later one finds the work done."""
    return other.spec.text == plan.spec.text and other.cell.settings == plan.cell.settings
