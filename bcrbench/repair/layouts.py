"""From scores and a budget to rows: the paper's three layouts (section 3, "The layouts").

All three spend one budget and differ in the unit they spend it in. Higher scores go first, ties go to the lower
position. Means of scores are taken in float64, so that equal rows make equal chunks, however short the last one is.

`over` is which rows may be chosen. `all` is the paper's: the whole cached prefix. `predicted` spends nothing on rows
that are exact already; the budget stays a share of all M rows, but is at most the predicted ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Literal, Sequence, get_args

import torch
from torch import Tensor

from bcrbench.errors import RunFailed, UserError, unknown
from bcrbench.repair.budget import Budget, chunk_budget, row_budget
from bcrbench.repair.selectors.base import Selector
from bcrbench.repair.view import RepairView

Over = Literal["all", "predicted"]
Span = tuple[int, int]


@dataclass(frozen=True)
class Selection:
    """Rows to make exact, ascending, each once; why none, if none.

    `spans` are the [start, end) that the layout formed, in ascending order: a chunk, a grown span, or a run of
    adjacent single rows. Together they are exactly the rows.
    """

    rows: list[int]
    skipped: str | None
    spans: list[Span]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Base of all layouts: subclasses say what a budget is, and which spans it buys."""

    over: Over = "all"

    def __post_init__(self) -> None:
        if self.over not in get_args(Over):
            raise unknown("rows to choose over", self.over, get_args(Over))

    def rows(self, view: RepairView, selector: Selector, rho: float) -> Selection:
        """Choose rows of the call's M. The selector is not asked when nothing would be spent.

        Raises UserError for a rho outside 0 to 1, RunFailed when scores are not finite.
        """
        budget = self.budget(view.rows, rho)
        free = [self.over == "all" or not exact for exact in view.exact]
        if not budget.skipped and not any(free):
            budget = Budget(0, "no predicted rows")
        if budget.skipped:
            return Selection([], budget.skipped, [])
        spans = sorted(self.spend(budget.units, free, view, selector, row_scores(view, selector)))
        return Selection(list(chain.from_iterable(range(*span) for span in spans)), None, spans)

    def budget(self, cached: int, rho: float) -> Budget:
        """Units for M = `cached` rows."""
        return row_budget(cached, rho)

    def spend(
        self, units: int, free: list[bool], view: RepairView, selector: Selector, scores: Tensor
    ) -> list[Span]:
        """Disjoint spans of free rows for at most `units` units; `scores` are [M], float64, on the CPU."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Chunk(Layout):
    """A fixed grid of B-row chunks from row 0; the best round(rho * M / B) of them. A short last chunk is allowed.

    With over=predicted a chunk competes if it holds a predicted row, narrowed to the span from its first to its last
    one, and exact rows inside are not recomputed. The number of chunks stays, so a narrowed chunk leaves budget
    unspent; buying more chunks for it would change how often the selector chooses, not only over what.
    """

    B: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.B < 1:
            raise UserError(f"B={self.B}: expected at least 1 row in a chunk")

    def budget(self, cached: int, rho: float) -> Budget:
        """Chunks for M = `cached` rows."""
        return chunk_budget(cached, self.B, rho)

    def spend(
        self, units: int, free: list[bool], view: RepairView, selector: Selector, scores: Tensor
    ) -> list[Span]:
        """The chunks with the highest unit scores."""
        grid = [self._narrowed(start, free) for start in range(0, len(free), self.B)]
        chunks = [chunk for chunk in grid if chunk]
        means = selector.unit_scores(view, chunks, scores)
        taken = (chunks[i] for i in best_first(means)[:units])
        return list(chain.from_iterable(runs([j for j in chunk if free[j]]) for chunk in taken))

    def _narrowed(self, start: int, free: list[bool]) -> range:
        inside = [j for j in range(start, min(start + self.B, len(free))) if free[j]]
        return range(inside[0], inside[-1] + 1) if inside else range(0)


@dataclass(frozen=True, kw_only=True)
class Grow(Layout):
    """Spans that follow the scores: seeded at the best remaining row, extended outward, exactly round(rho * M) rows.

    A span takes the better-scoring of its two neighbours (the left one on a tie) while that one scores at least
    `tau` of the seed and the span is shorter than `cap`; a side that is taken, not free or too low stays shut. The
    last span stops when the budget is spent, so it keeps the best of what it would have had.

    The threshold is tau * seed taken literally. A seed of 0 lets rows of 0 join, so a flat rest is taken in spans of
    `cap` from its lowest row; below a negative seed the threshold lies above the seed itself, so (for tau < 1) each
    such row stands alone. The draft's scores are softmax masses and never negative.
    """

    tau: float = 0.25
    cap: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.tau <= 1:
            raise UserError(f"tau={self.tau}: expected 0 to 1")
        if self.cap < 1:
            raise UserError(f"cap={self.cap}: expected at least 1 row in a span")

    def spend(
        self, units: int, free: list[bool], view: RepairView, selector: Selector, scores: Tensor
    ) -> list[Span]:
        """Grow spans from seeds in order of score until the budget is spent or no row is free."""
        free, values = list(free), scores.tolist()
        spans: list[Span] = []
        for seed in best_first(scores):
            if units == 0:
                break
            if not free[seed]:
                continue
            start, end = self._grown(seed, values, free, min(self.cap, units))
            free[start:end] = [False] * (end - start)
            units -= end - start
            spans.append((start, end))
        return spans

    def _grown(self, seed: int, values: list[float], free: list[bool], limit: int) -> Span:
        floor = self.tau * values[seed]
        start, end = seed, seed + 1
        while end - start < limit:
            sides = [j for j in (start - 1, end) if 0 <= j < len(free) and free[j] and values[j] >= floor]
            if not sides:
                break
            best = max(sides, key=lambda j: values[j])
            start, end = min(start, best), max(end, best + 1)
        return start, end


@dataclass(frozen=True, kw_only=True)
class Single(Layout):
    """No grouping: the round(rho * M) best rows."""

    def spend(
        self, units: int, free: list[bool], view: RepairView, selector: Selector, scores: Tensor
    ) -> list[Span]:
        """The free rows with the highest scores, as runs of adjacent ones."""
        return runs(sorted([j for j in best_first(scores) if free[j]][:units]))


def row_scores(view: RepairView, selector: Selector) -> Tensor:
    """The selector's scores [M], as float64 on the CPU. Raises RunFailed unless there are M finite ones."""
    scores = selector.scores(view).cpu().double()
    if scores.shape != (view.rows,) or not bool(torch.isfinite(scores).all()):
        raise RunFailed(f"selector {type(selector).__name__}: expected {view.rows} finite scores")
    return scores


def best_first(scores: Tensor) -> list[int]:
    """Indexes from the highest score to the lowest, lower ones first among equals."""
    order: list[int] = torch.sort(scores, descending=True, stable=True).indices.tolist()
    return order


def runs(rows: Sequence[int]) -> list[Span]:
    """Ascending rows as maximal spans [start, end)."""
    cuts = [i for i in range(1, len(rows)) if rows[i] != rows[i - 1] + 1]
    return [(rows[a], rows[b - 1] + 1) for a, b in zip([0, *cuts], [*cuts, len(rows)])] if rows else []
