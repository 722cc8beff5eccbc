"""`oracle`: the true error of a row, from an exact cache.

Never a method: it costs the prefill that a repair exists to avoid. With `single` and `transplant` it removes the most
cache error that a budget can; that bounds cache error, not accuracy, since not every row matters to the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bcrbench.repair.selectors.base import Selector
from bcrbench.repair.view import RepairView

_TINY = 1e-30


@dataclass(frozen=True)
class Oracle(Selector):
    """L2 error of a row's keys and values over all layers, each layer's relative to its dense norm.

    The norm is that of a layer's M rows together, keys and values apart: layers then count alike, whatever their
    scale, and a row with next to no value (a sink) does not count as infinitely wrong. Squared scores sum to the
    relative squared errors of all layers.
    """

    @torch.inference_mode()
    def scores(self, view: RepairView) -> Tensor:
        """Error of each row against Dense, [M]."""
        total = _squares(view.cache.keys, view.dense.keys, view.rows)
        return (total + _squares(view.cache.values, view.dense.values, view.rows)).sqrt_()


def _squares(served: Tensor, dense: Tensor, rows: int) -> Tensor:
    """Relative squared error [M] summed over the layers of keys, or of values."""
    total = torch.zeros(rows, dtype=torch.float32, device=served.device)
    for ours, exact in zip(served[:, 0, :, :rows], dense[:, 0, :, :rows], strict=True):
        exact = exact.float()
        error = (ours.float() - exact).square_().sum(dim=(0, 2))
        total += error / exact.square().sum().clamp_min(_TINY)
    return total
