"""What a selector is: one score a row, or one a unit; higher is recomputed first (paper section 3)."""

from __future__ import annotations

import torch
from torch import Tensor

from bcrbench.repair.view import RepairView


class Selector:
    """Scores the M rows of a served cache. Subclasses are one file each and one line in the registry.

    Scores are float32 [M] and finite. Ties are broken by the layout, by lower position.
    """

    def scores(self, view: RepairView) -> Tensor:
        """One score a row, [M]."""
        raise NotImplementedError

    def unit_scores(self, view: RepairView, units: list[range], row_scores: Tensor) -> Tensor:
        """One score a unit (a span of rows), [units]: by default the mean of its rows' scores."""
        return torch.stack([row_scores[unit.start : unit.stop].mean() for unit in units])
