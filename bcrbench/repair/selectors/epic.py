"""`epic`: the first rows of every reused piece, no probe (EPIC / LegoLink)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bcrbench.repair.selectors.ranked import Ranked
from bcrbench.repair.view import RepairView


@dataclass(frozen=True)
class Epic(Ranked):
    """A row's rank is its position in its segment: first rows of all shared segments, then second rows, and so on.

    EPIC's "chunk" is a text whose rows were computed without what precedes it; here that is a shared segment. (It is
    not a chunk of the layout.) EPIC recomputes the first k rows of every chunk but the first one; here the budget
    says how far k goes, and the first one is fixed_0, the exact prefix. Should the budget outlast the shared segments,
    the template's later pieces follow, ranked likewise, then fixed_0.
    """

    def scores(self, view: RepairView) -> Tensor:
        """Whole numbers [M]: above L for shared segments, 1 to L for later fixed ones, 0 for fixed_0; L the longest."""
        scores = torch.zeros(view.rows, dtype=torch.float32)
        longest = max(segment.length for segment in view.segments)
        for segment in view.segments[1:]:
            best = 2 * longest if segment.shared else longest
            end = min(segment.end, view.rows)
            scores[segment.start : end] = best - torch.arange(end - segment.start, dtype=torch.float32)
        return scores
