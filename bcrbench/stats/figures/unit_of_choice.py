"""Table 8 as a curve: what choosing well is worth, by unit of choice and operator (section 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bcrbench.stats.figures.base import Chart, Figure, NoData, Probe
from bcrbench.stats.figures.style import INK, legend, look
from bcrbench.stats.summary import Row
from bcrbench.stats.units import OPERATORS, unit_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


def make(probe: Probe) -> Chart:
    """Chart one probe's log. Raises NoData where no unit is measured to the end."""
    rows = [row for operator in OPERATORS for row in unit_rows(probe, operator) if row["attention"] is not None]
    drawn = [operator for operator in OPERATORS if any(row["operator"] == operator for row in rows)]
    if not drawn:
        raise NoData("the probe holds no unit with all of its measurements")
    prompts = max(row["prompts"] for row in rows)

    def draw(canvas: Canvas) -> None:
        panels = canvas.subplots(len(drawn), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, operator in zip(panels, drawn, strict=True):
            _panel(axes, operator, [row for row in rows if row["operator"] == operator])
        panels[-1].set_xlabel("unit of choice (rows)")
        legend(canvas, panels[0], columns=3)

    title = (
        f"Unit of choice, n = {prompts} prompt{'s' * (prompts != 1)}, {probe.run.effective['segment_tokens']} tokens"
    )
    return Chart(title, rows, draw, height=1.0 + 2.4 * len(drawn))


def _panel(axes: Axes, operator: str, rows: list[Row]) -> None:
    units = [row["unit"] for row in rows]
    for place, chooser in enumerate(("attention", "coin")):
        axes.plot(units, [row[chooser] for row in rows], **look(place), label=chooser)
    axes.axhline(rows[0]["no_repair"], color=INK, linewidth=0.9, linestyle=":", label="no repair")
    axes.set_xscale("log", base=2)
    axes.set_xticks(units, [str(unit) for unit in units])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_title(operator)
    axes.set_ylabel("relative L2 error")


FIGURE = Figure(
    "units",
    "Error of the attention output that is left after a fifth of a reused segment's rows is restored, by how many rows "
    "are chosen together, chosen by attention or by a coin. The distance of the two is what choosing is worth.",
    "probe",
    make,
)
