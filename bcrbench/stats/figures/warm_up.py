"""Figure 2(a): reuse rate and accuracy against the reference by block of items, while the anchor pool fills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.figures.base import Chart, Figure, NoData, chosen, counted, graded, reference_of, reuse_rate
from bcrbench.stats.figures.style import INK, legend, look, named
from bcrbench.stats.summary import Row, difference_row

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

BLOCK = 60  # items, the paper's
FEWEST = 2  # blocks that show a course
BLOCKS = 5  # where a run is too short for the paper's


def block_size(items: int) -> int:
    """Items a block: the paper's 60, or a fifth of a run that holds fewer than two of those."""
    return BLOCK if items >= FEWEST * BLOCK else max(1, -(-items // BLOCKS))


def block_rows(reference: Arm, arm: Arm, size: int) -> list[Row]:
    """One row a block: its items, reuse rate, and accuracy difference with Newcombe's interval; a short rest joins."""
    ids = arm.ids
    starts = range(0, max(size, len(ids) - size // 2), size)
    rows: list[Row] = []
    for place, start in enumerate(starts):
        block = set(ids[start : start + size] if start != starts[-1] else ids[start:])
        part = arm.only(block)
        where = {"condition": arm.label, "block": place + 1, "first": start + 1, "last": start + len(block)}
        rows.append(where | {"reuse_rate": reuse_rate(part)} | difference_row(part, reference.only(block)))
    return rows


def make(cell: Cell) -> Chart:
    """Chart the cell's arms that reuse anything. Raises NoData where none does or a run has a single block."""
    reference = reference_of(cell)
    reusing = [arm for arm in graded(cell) if arm is not reference and reuse_rate(arm)]
    arms = [arm for arm in reusing if cell.reference_of(arm) is not None]
    if reusing and not arms:
        raise NoData("no run that reused a call has the reference's items: one of the two was cut short")
    if not arms:
        raise NoData("no condition beside the reference reused a call")
    size = block_size(len(reference.items))
    blocks = {arm.label: block_rows(reference, arm, size) for arm in arms}
    if max(map(len, blocks.values())) < FEWEST:
        raise NoData(f"fewer than {FEWEST} blocks of items")
    shown, notes = chosen(arms)
    notes += [
        f"{arm.label} is left out: it or the reference was cut short"
        for arm in reusing
        if cell.reference_of(arm) is None
    ]

    def draw(canvas: Canvas) -> None:
        _draw(canvas, shown, blocks, reference)

    title = f"Warm-up by blocks of {size} items, {counted(arms)}"
    rows = [row for arm in arms for row in blocks[arm.label]]
    return Chart(title, rows, draw, height=4.6 + 0.2 * len(shown), notes=notes)


def _draw(canvas: Canvas, arms: Sequence[Arm], blocks: dict[str, list[Row]], reference: Arm) -> None:
    upper, lower = canvas.subplots(2, 1, sharex=True)
    for place, arm in enumerate(arms):
        rows, style = blocks[arm.label], look(place)
        shift = 0.12 * (place - (len(arms) - 1) / 2)  # so that error bars do not cover each other
        at = [row["block"] + shift for row in rows]
        upper.plot(at, [row["reuse_rate"] for row in rows], **style, label=named(arm.label))
        gaps = [100 * row["difference"] for row in rows]
        sides = [[gap - 100 * row["diff_low"] for gap, row in zip(gaps, rows, strict=True)],
                 [100 * row["diff_high"] - gap for gap, row in zip(gaps, rows, strict=True)]]  # fmt: skip
        lower.errorbar(at, gaps, yerr=sides, capsize=2, elinewidth=0.8, **style)
    upper.set_ylim(-0.03, 1.03)
    upper.set_ylabel("reuse rate (share of calls)")
    lower.axhline(0, color=INK, linewidth=0.8)
    lower.set_ylabel(f"accuracy less {named(reference.label)} (points)")
    longest = max(blocks.values(), key=len)
    lower.set_xticks([row["block"] for row in longest], [f"{row['first']}-{row['last']}" for row in longest])
    lower.set_xlabel("items, in the run's order")
    legend(canvas, upper)


FIGURE = Figure(
    "warm-up",
    "Reuse rate (above) and accuracy less the reference's with Newcombe's 95 % interval (below), by block of items in "
    "the run's order. The pool fills as a run goes on, so a short run sees mostly the time before reuse.",
    "cell",
    make,
)
