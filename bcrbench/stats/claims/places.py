"""The cells that a claim speaks of, and the runs in them that a condition of a claim means."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.claims.kind import Place
from bcrbench.stats.condition import Setting, usual, written
from bcrbench.stats.paper_tables.places import agents_of, model_of, pinned, size_of, task_of
from bcrbench.stats.paper_tables.table10 import TASK as TIMED
from bcrbench.stats.paper_tables.table10 import symbols_of

_SIZES = ("B", "cap", "tau")  # a bare name leaves them free
_FREE = ("seed",)  # every seed of a condition counts
_NAMED = ("gamma", "theta", "p", "match")  # strings name them whatever they are


@dataclass(frozen=True)
class Spot:
    """A place in words, and its cell; None where no log is of it."""

    told: str
    cell: Cell | None

    def arms(self, condition: str, place: Place) -> list[Arm]:
        """The runs of a condition: one, or one a seed; kernels only as the claim names them."""
        if self.cell is None:
            return []
        arms = [arm for arm in self.cell.arms if place.kernel in (None, arm.run.model.get("kernel"))]
        return meant(arms, condition)


def spots(cells: Sequence[Cell], place: Place, conditions: Sequence[str]) -> list[Spot]:
    """A claim's cells, one a task, agent count and model, in the order of their names, and a spot for each that lacks.

    Of several item sets it is the one of the claim's size, else one that more of the conditions ran on, else the
    largest; cells in which none of them ran are not the claim's.
    """
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        if fits(cell, place):
            groups.setdefault(_key(cell), []).append(cell)

    def rank(cell: Cell) -> tuple[bool, int, int]:
        ran = sum(bool(meant(cell.arms, condition)) for condition in conditions)
        return size_of(cell) == place.items, ran, size_of(cell)

    several = len({model_of(cell) for group in groups.values() for cell in group}) > 1
    best = [max(groups[key], key=rank) for key in sorted(groups, key=str)]
    chosen = [cell for cell in best if rank(cell)[1]]
    found = [Spot(_told(cell) + (f", {model_of(cell)}" if several else ""), cell) for cell in chosen]
    return found + [Spot(told, None) for told in _absent(place, chosen)]


def fits(cell: Cell, place: Place) -> bool:
    """Whether a cell is of a claim's place."""
    if place.task is not None and task_of(cell) not in _each(place.task):
        return False
    if place.agents is not None and agents_of(cell) not in _each(place.agents):
        return False
    if pinned(cell) != place.pinned:
        return False
    return place.symbols is None or (task_of(cell) == TIMED and symbols_of(cell.arms[0].run) == place.symbols)


def meant(arms: Sequence[Arm], condition: str) -> list[Arm]:
    """The runs that a claim's condition means, the plainest condition of those that fit, every seed of it.

    What the condition names must match; whatever else a run's own string names must be as usual, less what strings
    always name. A bare name leaves sizes free. A value that ends in `:` is the beginning of one.
    """
    wanted = written(condition)
    fitting = [arm for arm in arms if arm.setting.name == wanted.name and _fits(arm, wanted)]
    plain = Setting(wanted.name, {})
    best = min((_plainness(arm, plain) for arm in fitting), default=None)
    return [arm for arm in fitting if _plainness(arm, plain) == best]


def _fits(arm: Arm, wanted: Setting) -> bool:
    if not arm.setting.has(wanted.values):
        return False
    free = {*wanted.values, *_FREE, *(() if wanted.values else _SIZES)}
    known = usual(wanted.name)  # strings leave defaults out, so most of what they name is not one
    told = written(arm.condition).values.items()
    return all(key in free or (known[key] == value if key in known else key in _NAMED) for key, value in told)


def _plainness(arm: Arm, plain: Setting) -> tuple[int, int, str]:
    named = re.sub(r",seed=\d+|(?<=:)seed=\d+,?", "", arm.condition)
    return sum(not arm.setting.has({key: plain.get(key)}) for key in _SIZES), len(named), named


def _key(cell: Cell) -> tuple[Any, ...]:
    symbols = symbols_of(cell.arms[0].run) if task_of(cell) == TIMED else None
    facts = {key: value for key, value in cell.facts.items() if key != "items"}
    return task_of(cell), agents_of(cell) or 0, pinned(cell), symbols or 0, str(facts)


def _told(cell: Cell) -> str:
    symbols = f", {symbols_of(cell.arms[0].run)} symbols" if task_of(cell) == TIMED else ""
    return f"{task_of(cell)}, {agents_of(cell)} agents{', one role' if pinned(cell) else ''}{symbols}"


def _absent(place: Place, found: Sequence[Cell]) -> Iterator[str]:
    """The named tasks and agent counts that no cell is of; the place itself where there is none at all."""
    there = {(task_of(cell), agents_of(cell)) for cell in found}
    for task in _each(place.task):
        for agents in _each(place.agents):
            if not any(task in (None, one) and agents in (None, two) for one, two in there):
                yield _words(task, agents, place)


def _words(task: Any, agents: Any, place: Place) -> str:
    parts = [task, f"{agents} agents" if agents is not None else None, "one role" if place.pinned else None]
    parts += [f"{place.symbols} symbols" if place.symbols is not None else None]
    return ", ".join(part for part in parts if part) or "any cell"


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
