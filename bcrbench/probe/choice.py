"""Which rows of a segment to restore: a grid of units, a budget, and a selector (paper Table 8, caption)."""

from __future__ import annotations

from itertools import chain

from bcrbench.repair.layouts import best_first, row_scores
from bcrbench.repair.selectors.base import Selector
from bcrbench.repair.view import RepairView
from bcrbench.reuse.segments import Segment


def grid(segment: Segment, unit: int) -> list[range]:
    """The segment's rows in chunks of `unit` from its first row on; the last one may be short."""
    return [range(start, min(start + unit, segment.end)) for start in range(segment.start, segment.end, unit)]


def chunks_to_keep(chunks: int, rho: float) -> int:
    """max(1, round(rho * n_chunks)), as the caption has it: coarse units overspend the nominal share."""
    return max(1, round(rho * chunks))


def choose(view: RepairView, segment: Segment, unit: int, rho: float, selector: Selector) -> list[int]:
    """Ascending rows of the segment's best units; rows outside the segment compete nowhere."""
    chunks = grid(segment, unit)
    means = selector.unit_scores(view, chunks, row_scores(view, selector))
    kept = best_first(means)[: chunks_to_keep(len(chunks), rho)]
    return sorted(chain.from_iterable(chunks[i] for i in kept))
