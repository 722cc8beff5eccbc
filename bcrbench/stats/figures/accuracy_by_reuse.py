"""Figure 2(b) and Eq. 3: accuracy against reuse rate, with the line through Dense and KVComm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.figures.base import Chart, Figure, NoData, accuracy_of, chosen, counted, graded, policy, reuse_rate
from bcrbench.stats.figures.style import INK, legend, look, named
from bcrbench.stats.intervals import wilson
from bcrbench.stats.reuse_line import ReuseLine, line_through
from bcrbench.stats.summary import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

MOST = 12


def make(cell: Cell) -> Chart:
    """Chart every arm with calls. Raises NoData where no two arms differ in their reuse rate."""
    arms = [arm for arm in graded(cell) if reuse_rate(arm) is not None]
    if len({reuse_rate(arm) for arm in arms}) < 2:
        raise NoData("no two conditions of this cell differ in their reuse rate")
    line, ends = eq3(arms)
    rows = [_row(arm, line) for arm in arms]
    shown, notes = chosen(arms, MOST)
    if line is None:
        notes.append("no line: it takes a dense and a kvcomm log, and one reused call")

    def draw(canvas: Canvas) -> None:
        _draw(canvas, shown, [rows[arms.index(arm)] for arm in shown], line)

    said = f", Eq. 3 through {ends}" if line else ""
    return Chart(f"Accuracy against reuse rate, {counted(arms)}{said}", rows, draw, 3.6 + 0.2 * len(shown), notes)


def eq3(arms: Sequence[Arm]) -> tuple[ReuseLine | None, str]:
    """Eq. 3's line through dense and the kvcomm arm that reuses most, and the two names; None where one is missing."""
    dense = next((arm for arm in arms if arm.condition == "dense"), None)
    reusing = [arm for arm in arms if policy(arm) == "kvcomm" and reuse_rate(arm)]
    if dense is None or not reusing:
        return None, ""
    most = max(reusing, key=lambda arm: reuse_rate(arm) or 0.0)
    line = line_through(accuracy_of(dense), accuracy_of(most), reuse_rate(most) or 0.0)
    return line, f"{dense.label} and {named(most.label)}"


def _row(arm: Arm, line: ReuseLine | None) -> Row:
    accuracy, rate = accuracy_of(arm), reuse_rate(arm) or 0.0
    low, high = wilson(sum(arm.solved), len(arm.items))
    return {
        "condition": arm.label,
        "n": len(arm.items),
        "reuse_rate": rate,
        "accuracy": accuracy,
        "ci_low": low,
        "ci_high": high,
        "line": line.predicted(rate) if line else None,
        "residual": line.residual(accuracy, rate) if line else None,
    }


def _draw(canvas: Canvas, arms: Sequence[Arm], rows: Sequence[Row], line: ReuseLine | None) -> None:
    axes = canvas.subplots()
    if line:
        ends = [0.0, max(row["reuse_rate"] for row in rows)]
        axes.plot(ends, [100 * line.predicted(x) for x in ends], color=INK, linewidth=1, linestyle="--", label="Eq. 3")
    for place, (arm, row) in enumerate(zip(arms, rows, strict=True)):
        accuracy = 100 * row["accuracy"]
        sides = [[accuracy - 100 * row["ci_low"]], [100 * row["ci_high"] - accuracy]]
        style: dict[str, Any] = look(place) | {"linestyle": "none"}
        axes.errorbar(
            [row["reuse_rate"]], [accuracy], yerr=sides, capsize=2, elinewidth=0.8, **style, label=named(arm.label)
        )
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel("reuse rate (share of calls)")
    axes.set_ylabel("accuracy (%)")
    legend(canvas, axes)


FIGURE = Figure(
    "reuse-line",
    "Accuracy with Wilson's 95 % interval against the share of calls served from reused rows. The dashed line is "
    "Eq. 3, through Dense and the KVComm log that reuses most; what a policy earns is its distance above the line.",
    "cell",
    make,
)
