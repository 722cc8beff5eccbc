"""Milliseconds to the first token, stage by stage, by the length of what is reused (App. C, Table 10)."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean, quantiles
from typing import TYPE_CHECKING, NamedTuple

from bcrbench.runs.schema import Stages
from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.figures.base import Chart, Figure, NoData, chosen
from bcrbench.stats.figures.source import figure_items
from bcrbench.stats.figures.style import COLOURS, FAINT, legend, named
from bcrbench.stats.summary import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

FIRST = ("base", "gate", "assemble", "draft", "select", "repair", "first_token")  # before the first token
LATER = ("decode", "anchor", "response")
SHADES = dict(zip(FIRST, (*COLOURS, FAINT)))
MOST = 5  # conditions; each is a panel
BINS = 4

TWINS = "dense twins"  # full prefills beside reused calls, in runs that compare times

Where = tuple[str, str, str]  # cell's items, item id, agent


class _Timed(NamedTuple):
    """One serving of a call."""

    condition: str
    length: int
    reused: bool
    ms: Stages
    ttft_ms: float


def make(cells: Sequence[Cell]) -> Chart:
    """Chart cells that differ in their items only. Raises NoData where no call was reused."""
    arms = [arm for cell in cells for arm in cell.arms if arm.items]
    lengths = _lengths(arms)
    if not lengths:
        raise NoData("no call was reused")
    edges = bins(sorted(lengths.values()))
    rows = _rows(arms, lengths, edges)
    kept, notes = chosen(_first_of_each(arms), MOST)
    names = [arm.label for arm in kept] + [TWINS] * any(row["condition"] == TWINS for row in rows)
    calls = sum(row["calls"] for row in rows)

    def draw(canvas: Canvas) -> None:
        _draw(canvas, names, rows)

    title = f"Stages up to the first token by reused rows, n = {calls} calls"
    return Chart(title, rows, draw, height=1.3 + 1.6 * len(names), notes=notes)


def _first_of_each(arms: Sequence[Arm]) -> list[Arm]:
    return list({arm.label: arm for arm in reversed(arms)}.values())[::-1]


def _items_hash(arm: Arm) -> str:
    return str(arm.run.items.get("hash"))


def _lengths(arms: Sequence[Arm]) -> dict[Where, int]:
    """Rows assembled for a call, from the first condition that reused it: dense calls do not say."""
    found: dict[Where, int] = {}
    for arm in arms:
        items = _items_hash(arm)
        for item in figure_items(arm):
            for call in item.calls:
                if call.served == "reuse":
                    found.setdefault((items, item.id, call.agent), call.rows.predicted)
    return found


def bins(lengths: Sequence[int]) -> list[int]:
    """Lower edges: every length of its own where they are few, quarters of the sorted lengths otherwise."""
    distinct = sorted(set(lengths))
    if len(distinct) <= BINS + 2:
        return distinct
    cuts = quantiles(lengths, n=BINS, method="inclusive")
    return sorted({distinct[0], *(int(cut) + 1 for cut in cuts)} - {distinct[-1] + 1})


def _rows(arms: Sequence[Arm], lengths: dict[Where, int], edges: list[int]) -> list[Row]:
    groups: dict[tuple[str, int], list[_Timed]] = defaultdict(list)
    for arm in arms:
        for timed in _timed(arm, lengths):
            groups[timed.condition, bisect_right(edges, timed.length) - 1].append(timed)
    order = {name: place for place, name in enumerate([*dict.fromkeys(arm.label for arm in arms), TWINS])}
    return [_row(groups[key]) for key in sorted(groups, key=lambda key: (order[key[0]], key[1]))]


def _timed(arm: Arm, lengths: dict[Where, int]) -> Iterator[_Timed]:
    """The arm's calls of known length, their dense twins too; what warmed up is left out."""
    label, items = arm.label, _items_hash(arm)
    for item in figure_items(arm):
        for call in item.calls:
            length = lengths.get((items, item.id, call.agent))
            if length is None or call.warm_up:
                continue
            yield _Timed(label, length, call.served == "reuse", call.ms, call.ttft_ms)
            if call.twin:
                yield _Timed(TWINS, length, False, call.twin.ms, call.twin.ttft_ms)


def _row(calls: Sequence[_Timed]) -> Row:
    lengths = [call.length for call in calls]
    return {
        "condition": calls[0].condition,
        "rows_low": min(lengths),
        "rows_high": max(lengths),
        "calls": len(calls),
        "reused": sum(call.reused for call in calls),
        **{f"{stage}_ms": fmean(getattr(call.ms, stage) for call in calls) for stage in (*FIRST, *LATER)},
        "ttft_ms": fmean(call.ttft_ms for call in calls),
    }


def _draw(canvas: Canvas, names: Sequence[str], rows: Sequence[Row]) -> None:
    panels = canvas.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for axes, name in zip(panels, names, strict=True):
        _panel(axes, name, [row for row in rows if row["condition"] == name])
    panels[-1].set_xlabel("mean time of a call up to its first token (ms)")
    canvas.supylabel("rows that reuse assembles for the call", fontsize=9)
    legend(canvas, panels[0], columns=4)


def _panel(axes: Axes, name: str, rows: Sequence[Row]) -> None:
    labels = [_span(row) for row in rows]
    start = [0.0] * len(rows)
    for stage in FIRST:
        wide = [row[f"{stage}_ms"] for row in rows]
        axes.barh(labels, wide, left=start, color=SHADES[stage], label=stage.replace("_", " "))
        start = [one + more for one, more in zip(start, wide, strict=True)]
    axes.set_title(named(name), loc="left")
    axes.grid(visible=False, axis="y")


def _span(row: Row) -> str:
    low, high = row["rows_low"], row["rows_high"]
    return str(low) if low == high else f"{low}-{high}"


FIGURE = Figure(
    "stages",
    "Mean time of a call up to its first token, split into stages, by the rows of its prompt that reuse assembles. A "
    "call counts in every condition if one reused it. Decoding follows the first token and is in the data.",
    "cells",
    make,
)
