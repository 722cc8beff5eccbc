"""`frontier`: the first rows that are not exact, in order ("Contiguity, Not Importance").

Everything before the frontier is exact, so rows recomputed right behind it come out exact, too, and the frontier moves
on. Rows recomputed elsewhere see predicted ones and stay off.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bcrbench.repair.selectors.ranked import Ranked
from bcrbench.repair.view import RepairView


@dataclass(frozen=True)
class Frontier(Ranked):
    """Rows that are not exact by provenance, first ones first; exact rows last."""

    def scores(self, view: RepairView) -> Tensor:
        """M - j for a row j that is not exact, 0 for one that is, [M]."""
        known = torch.tensor(view.exact)
        return torch.arange(view.rows, 0, -1, dtype=torch.float32).masked_fill(known, 0.0)
