"""Accuracy against time: what each condition pays for its answers (App. C and F)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.figures.base import Chart, Figure, NoData, chosen, counted, graded
from bcrbench.stats.figures.style import FAINT, legend, look, named
from bcrbench.stats.intervals import wilson
from bcrbench.stats.summary import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

MOST = 12
TIMES = {"ttft_ms": "time to first token (ms, median by call)", "e2e_ms": "whole item (ms, median)"}


def make(cell: Cell) -> Chart:
    """Chart every arm with calls. Raises NoData for fewer than two."""
    arms = [arm for arm in graded(cell) if any(_times(arm))]
    if len(arms) < 2:
        raise NoData("fewer than two conditions with calls in this cell")
    rows = [_row(arm) for arm in arms]
    for name in TIMES:
        best = frontier([(row[name], row["accuracy"]) for row in rows])
        for place, row in enumerate(rows):
            row[f"frontier_{name}"] = place in best
    shown, notes = chosen(arms, MOST)

    def draw(canvas: Canvas) -> None:
        for axes, (name, label) in zip(canvas.subplots(2, 1, sharey=True), TIMES.items(), strict=True):
            _panel(axes, name, label, rows, shown)
        legend(canvas, axes)

    return Chart(f"Accuracy against latency, {counted(arms)}", rows, draw, 5.4 + 0.2 * len(shown), notes)


def frontier(points: Sequence[tuple[float, float]]) -> set[int]:
    """Places of the (time, accuracy) points that no other beats: none as fast is better, none as good is faster."""
    return {
        place
        for place, (time, good) in enumerate(points)
        if not any((t <= time and g >= good) and (t < time or g > good) for t, g in points)
    }


def _times(arm: Arm) -> list[float]:
    return [call.ttft_ms for item in arm.items for call in item.calls if not call.warm_up]


def _row(arm: Arm) -> Row:
    k, n = sum(arm.solved), len(arm.items)
    low, high = wilson(k, n)
    return {
        "condition": arm.label,
        "n": n,
        "accuracy": k / n,
        "ci_low": low,
        "ci_high": high,
        "ttft_ms": median(_times(arm)),
        "e2e_ms": 1000 * median(item.wall_s for item in arm.items),
    }


def _panel(axes: Axes, name: str, label: str, rows: Sequence[Row], shown: Sequence[Arm]) -> None:
    edge = sorted((row[name], 100 * row["accuracy"]) for row in rows if row[f"frontier_{name}"])
    times, accuracies = zip(*edge)
    axes.plot(times, accuracies, color=FAINT, linewidth=1, drawstyle="steps-post", label="frontier")
    drawn = {arm.label: look(place) | {"linestyle": "none"} for place, arm in enumerate(shown)}
    for row in rows:
        if row["condition"] in drawn:
            style: dict[str, Any] = drawn[row["condition"]]
            good = 100 * row["accuracy"]
            sides = [[good - 100 * row["ci_low"]], [100 * row["ci_high"] - good]]
            axes.errorbar(
                [row[name]], [good], yerr=sides, capsize=2, elinewidth=0.6, **style, label=named(row["condition"])
            )
    axes.set_xlim(0, 1.06 * max(row[name] for row in rows) or 1)
    axes.set_xlabel(label)
    axes.set_ylabel("accuracy (%)")


FIGURE = Figure(
    "frontier",
    "Accuracy with Wilson's 95 % interval against median times. The grey line joins the conditions that no other beats "
    "in both. Times of a shared machine say little; the log names the device.",
    "cell",
    make,
)
