"""`coin`: the control at the same budget (paper section 4.3, App. A.2 "The random control", App. H)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from bcrbench.repair.selectors.base import Selector
from bcrbench.repair.view import RepairView


@dataclass(frozen=True)
class Coin(Selector):
    """Uniform draws: one stream per run that advances once per repaired call, so a call's draws are a function of
    (seed, index of the repaired call) and of nothing else, neither the prompt nor what was drawn before.

    Python's generator, seeded by text, promises the same numbers on every machine and version.
    """

    def scores(self, view: RepairView) -> Tensor:
        """One draw from [0, 1) a row, [M]."""
        return _draws(view, view.rows)

    def unit_scores(self, view: RepairView, units: list[range], row_scores: Tensor) -> Tensor:
        """One draw a unit, [units]: means of draws would crowd long units around 0.5 and let a short one stray."""
        return _draws(view, len(units))


def _draws(view: RepairView, count: int) -> Tensor:
    stream = Random(f"bcrbench coin {view.seed} {view.index}")
    return torch.tensor([stream.random() for _ in range(count)], dtype=torch.float32)
