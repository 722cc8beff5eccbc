"""Reuse rate and pool size along the run: how the anchor pool fills and what it then serves (section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.figures.base import Chart, Figure, NoData, chosen, counted, filled
from bcrbench.stats.figures.source import FigureItem, figure_items
from bcrbench.stats.figures.style import legend, look, named
from bcrbench.stats.summary import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

WINDOW = 20  # items that a rate is taken over


def item_rows(arm: Arm) -> list[Row]:
    """One row an item: share of calls reused in the last items, and anchors in the pools of its segments."""
    items = figure_items(arm)
    reused = [sum(call.served == "reuse" for call in item.calls) for item in items]
    calls = [len(item.calls) for item in items]
    pools: dict[str, int] = {}
    rows: list[Row] = []
    for k, item in enumerate(items):
        pools |= _pools(item)
        start = max(0, k + 1 - WINDOW)
        asked = sum(calls[start : k + 1])
        rows.append({
            "condition": arm.label,
            "item": item.index + 1,
            "reused": reused[k],
            "calls": calls[k],
            "reuse_rate": sum(reused[start : k + 1]) / asked if asked else None,
            "anchors_mean": fmean(pools.values()) if pools else None,
            "anchors_most": max(pools.values(), default=None),
        })  # fmt: skip
    return rows


def _pools(item: FigureItem) -> dict[str, int]:
    """Anchors by segment, as the item's last call that asked found them."""
    return {gate.segment: gate.anchors for call in item.calls for gate in call.gate}


def make(cell: Cell) -> Chart:
    """Chart the arms with a gate. Raises NoData where none has one, or they hold one item."""
    arms = [arm for arm in filled(cell) if any(call.gate for item in figure_items(arm) for call in item.calls)]
    if not arms:
        raise NoData("no call went through a gate, so there is no pool")
    if max(len(arm.items) for arm in arms) < 2:
        raise NoData("a single item")
    courses = {arm.label: item_rows(arm) for arm in arms}
    shown, notes = chosen(arms)

    def draw(canvas: Canvas) -> None:
        _draw(canvas, shown, courses)

    rows = [row for arm in arms for row in courses[arm.label]]
    title = f"Reuse rate (last {WINDOW} items) and pool size along the run, {counted(arms)}"
    return Chart(title, rows, draw, height=4.4 + 0.2 * len(shown), notes=notes)


def _draw(canvas: Canvas, arms: Sequence[Arm], courses: dict[str, list[Row]]) -> None:
    upper, lower = canvas.subplots(2, 1, sharex=True)
    for place, arm in enumerate(arms):
        rows = courses[arm.label]
        style = look(place) | {"marker": None}
        at = [row["item"] for row in rows]
        upper.plot(at, [row["reuse_rate"] for row in rows], **style, label=named(arm.label))
        lower.plot(at, [row["anchors_mean"] for row in rows], **style)
    upper.set_ylim(-0.03, 1.03)
    upper.set_ylabel("reuse rate (share of calls)")
    lower.set_ylim(bottom=0)
    lower.set_ylabel("anchors a segment (mean)")
    lower.set_xlabel("item, in the run's order")
    legend(canvas, upper)


FIGURE = Figure(
    "along-the-run",
    f"Share of calls served from reused rows over the last {WINDOW} items (above) and anchors in the pool, as a mean "
    "over the shared segments seen so far (below).",
    "cell",
    make,
)
