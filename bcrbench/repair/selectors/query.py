"""`query`: what the prompt's own last rows attend to (ProphetKV's rule with a window of m rows)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from bcrbench.engine.probe import lent_rows
from bcrbench.errors import UserError
from bcrbench.repair.selectors.attention import attention_paid
from bcrbench.repair.selectors.base import Selector
from bcrbench.repair.view import RepairView


@dataclass(frozen=True)
class QueryAttention(Selector):
    """Attention of the last `m` prompt rows (all, when the prompt is shorter), run as one batched pass.

    The pass runs inside the assembled cache and is rolled back; like the draft's, the queries are then held against
    the keys of the cache that was served. A query row sees the cached rows up to itself. Scores sum to layers - 1.
    """

    m: int = 16

    def __post_init__(self) -> None:
        if self.m < 1:
            raise UserError(f"m={self.m}: expected at least 1 query row")

    def scores(self, view: RepairView) -> Tensor:
        """Attention paid to each row, [M]; the cache stays as it was, byte for byte."""
        end = len(view.ids)
        rows = range(max(0, end - self.m), end)
        queries: list[Tensor] = []
        with lent_rows(view.cache, rows.start, end):
            view.runtime.run(view.ids[rows.start :], rows, view.cache, queries=queries)
        return attention_paid(view, queries, rows)
