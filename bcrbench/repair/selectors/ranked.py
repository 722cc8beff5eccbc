"""Selectors that know an order of rows rather than how much each one matters."""

from __future__ import annotations

import torch
from torch import Tensor

from bcrbench.repair.selectors.base import Selector
from bcrbench.repair.view import RepairView


class Ranked(Selector):
    """A unit comes where its first-ranked row comes: a mean of ranks would put off a chunk for the rows before it."""

    def unit_scores(self, view: RepairView, units: list[range], row_scores: Tensor) -> Tensor:
        """The highest score in each unit, [units]."""
        return torch.stack([row_scores[unit.start : unit.stop].amax() for unit in units])
