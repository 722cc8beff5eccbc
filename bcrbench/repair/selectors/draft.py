"""`draft`: what the answer's opening attends to (paper Alg. 2, section 3 "The repair", App. A.2)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from bcrbench.repair.selectors.attention import attention_paid
from bcrbench.repair.selectors.base import Selector
from bcrbench.repair.view import RepairView


@dataclass(frozen=True)
class DraftAttention(Selector):
    """Attention of the draft's k rows: the prompt's last token and the first k - 1 generated ones (k is the view's).

    Costs k sequential decoding steps. Scores sum to layers - 1.
    """

    def scores(self, view: RepairView) -> Tensor:
        """Attention paid to each row, [M]; the cache stays as it was."""
        queries = view.draft.queries
        return attention_paid(view, queries, range(view.rows, view.rows + queries[0].shape[1]))
