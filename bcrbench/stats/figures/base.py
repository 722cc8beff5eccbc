"""What a figure is: a name, what one of it is drawn for, and a function from logs to a chart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from bcrbench.runs.log import ItemOutcome, Log
from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.summary import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

BASELINES = ("dense", "kvcomm")
MOST = 6  # conditions that one figure tells apart


class NoData(Exception):
    """The logs do not hold what a figure draws; the message is the reason, for a reader."""


@dataclass(frozen=True)
class Chart:
    """One drawn figure: its data as rows, and how to draw them on an empty canvas."""

    title: str
    rows: list[Row]
    draw: Callable[[Canvas], None]
    height: float = 4.2  # inches; every figure is as wide
    notes: list[str] = field(default_factory=list)  # what it leaves out


@dataclass(frozen=True)
class Figure:
    """A kind of figure: made once a cell, once a set of cells that differ in their items only, or once a probe."""

    name: str
    caption: str  # one sentence or two: what is drawn, and how to read it
    per: Literal["cell", "cells", "probe"]
    make: Callable[[Any], Chart]


def reference_of(cell: Cell) -> Arm:
    """The cell's reference. Raises NoData where it has none, or nothing beside it."""
    if cell.reference is None:
        raise NoData("no reference condition (such as dense) in this cell")
    if cell.reference.accuracy is None:
        raise NoData("the reference has no accuracy: no items, or ungraded ones")
    return cell.reference


def filled(cell: Cell) -> list[Arm]:
    """The cell's arms that hold items. Raises NoData when none does."""
    arms = [arm for arm in cell.arms if arm.items]
    if not arms:
        raise NoData("no log with items")
    return arms


def graded(cell: Cell) -> list[Arm]:
    """The cell's arms with an accuracy. Raises NoData when none has one."""
    arms = [arm for arm in filled(cell) if arm.accuracy is not None]
    if not arms:
        raise NoData("no log whose items are all graded")
    return arms


def accuracy_of(arm: Arm) -> float:
    """The accuracy of an arm that has one. Raises ValueError for any other."""
    if arm.accuracy is None:
        raise ValueError(f"{arm.path}: no accuracy, expected items that are all graded")
    return arm.accuracy


def reuse_rate(arm: Arm) -> float | None:
    """Share of an arm's calls that were served from reused rows; None of no call."""
    counts = Counter(call.served for item in arm.items for call in item.calls)
    return counts["reuse"] / counts.total() if counts else None


def policy(arm: Arm) -> str:
    """The condition's name without its parameters."""
    return arm.condition.partition(":")[0]


def chosen(arms: Sequence[Arm], most: int = MOST) -> tuple[list[Arm], list[str]]:
    """The first `most` arms, every policy before a second of any, the baselines first, and a note on the rest."""
    seen: Counter[str] = Counter()
    ranks = []
    for arm in arms:
        ranks.append(seen[policy(arm)])
        seen[policy(arm)] += 1
    order = sorted(range(len(arms)), key=lambda k: (ranks[k], policy(arms[k]) not in BASELINES, k))[:most]
    kept = [arms[k] for k in sorted(order)]
    left = len(arms) - len(kept)
    return kept, [f"{left} of {len(arms)} conditions are not drawn; the data hold all"] if left else []


def counted(arms: Sequence[Arm]) -> str:
    """`n = 150 items`, or a range where the arms' numbers of items differ."""
    counts = sorted({len(arm.items) for arm in arms})
    return f"n = {counts[0]} items" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]} items"


Probe = Log[ItemOutcome]
