"""Table 6: accuracy and reuse rate by block of items, the anchor pool's warm-up (section 4.1)."""

from __future__ import annotations

from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.paper_tables import measures, wants
from bcrbench.stats.paper_tables.build import Build, place_facts, title_of, where_of
from bcrbench.stats.paper_tables.panel import Column, Line, Panel
from bcrbench.stats.paper_tables.places import Place

PLACE = Place("gsm8k", 3, 300)
BLOCK = 60
COLUMNS = [
    Column("problems", "Problems", names=True),
    Column("rate", "reuse rate", "rate"),
    Column("dense", "Dense", "percent"),
    Column("kvcomm", "KVComm", "percent"),
    Column("delta", "delta", "points"),
]


def build(made: Build) -> list[Panel]:
    """One panel a cell."""
    return [_panel(made, place, cell) for place, cell in made.spots([PLACE])]


def _panel(made: Build, place: Place, cell: Cell | None) -> Panel:
    where = where_of(cell, place)
    dense, kvcomm = (made.arm(cell, want, where) for want in (wants.dense(), wants.kvcomm(0.3)))
    whole = made.pair(dense, kvcomm, where) is not None
    count = max((len(arm.items) for arm in (dense, kvcomm) if arm is not None), default=0) or place.n
    starts = range(0, count, BLOCK)
    spans = [(start, min(start + BLOCK, count)) for start in starts]
    lines = [_line(span, dense, kvcomm, whole) for span in [*spans, (0, count)]]
    if len(spans) > 1:
        lines[0].shaded.update(column.key for column in COLUMNS if not column.names)
    notes = [f"blocks of {BLOCK} items in the run's order; delta: points, KVComm less Dense"]
    return Panel("6", title_of("Accuracy and reuse rate by block", cell), COLUMNS, lines, place_facts(cell), notes)


def _line(span: tuple[int, int], dense: Arm | None, kvcomm: Arm | None, paired: bool) -> Line:
    start, stop = span
    line = Line(f"{start + 1}-{stop}", {"problems": f"{start + 1}-{stop}"})
    accuracies = [_accuracy(arm, start, stop) for arm in (dense, kvcomm)]
    line.put("rate", measures.reuse(kvcomm, kvcomm.items[start:stop]) if kvcomm is not None else None, kvcomm)
    line.put("dense", accuracies[0], dense)
    line.put("kvcomm", accuracies[1], kvcomm)
    if paired and accuracies[0] is not None and accuracies[1] is not None:
        line.put("delta", accuracies[1] - accuracies[0], dense, kvcomm)
    return line


def _accuracy(arm: Arm | None, start: int, stop: int) -> float | None:
    """Share of a block's items solved; None while the run lacks some of them or their grades."""
    if arm is None or arm.ungraded or len(arm.items) < stop:
        return None
    return sum(arm.solved[start:stop]) / (stop - start)
