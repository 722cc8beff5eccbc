"""The reference: whole segments in PyTorch, one anchor after another so that no difference is kept for later."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bcrbench.engine.rope import rotate
from bcrbench.reuse.arithmetic.base import Correction, Gaps, Turn, on
from bcrbench.reuse.block import flatten


class Plain:
    """PyTorch on any device, in any type; sums in float32."""

    name = "plain"

    def gaps(self, rows: Tensor, turn: Turn | None, stored: Sequence[Tensor]) -> Gaps:
        """Gaps of rows to stored anchors (base.Arithmetic)."""
        flat = flatten(_turned(rows, turn)).float()
        tokens, features = flat.shape
        by_row = flat.new_empty((len(stored), tokens))
        by_channel = flat.new_empty((len(stored), features))
        total = flat.new_empty(len(stored))
        gap = torch.empty_like(flat)  # one buffer for all anchors: fresh pages would cost more than the arithmetic
        for i, anchor in enumerate(stored):
            length = anchor.shape[0]
            torch.sub(on(flat.device, anchor[length - tokens :]), flat, out=gap)
            by_channel[i] = gap.square_().sum(0)
            if length == tokens:
                total[i] = by_channel[i].sum()
                gap.sqrt_()  # first and last rows are the same: the squares give the absolute gaps back
            else:
                torch.sub(on(flat.device, anchor[:tokens]), flat, out=gap)
                total[i] = gap.square().sum()
                gap.abs_()
            by_row[i] = gap.sum(1)
        return Gaps(list(stored), by_row, by_channel, total)

    def place(
        self, rows: Tensor, turn: Turn | None, correction: Correction | None, back: Turn | None, slots: Tensor
    ) -> None:
        """Write rows into slots (base.Arithmetic)."""
        placed = _turned(rows, turn)
        if correction is not None:
            placed = _corrected(placed, correction)
        slots.copy_(_turned(placed, back).permute(1, 2, 0, 3))


def _turned(rows: Tensor, turn: Turn | None) -> Tensor:
    return rows if turn is None else rotate(rows, turn.delta, turn.inv_freq)


def _corrected(rows: Tensor, correction: Correction) -> Tensor:
    flat, skip = flatten(rows).clone(), correction.skip
    total = torch.zeros((flat.shape[0], flat.shape[1] - skip), dtype=torch.float32, device=flat.device)
    for delta, weight in zip(correction.deltas, correction.weights):
        factor = weight[: flat.shape[0], None] if correction.by == "row" else weight[skip:]
        total.addcmul_(on(flat.device, delta[: flat.shape[0]])[:, skip:].float(), factor)
    flat[:, skip:] += total.to(flat.dtype)
    return flat.view(rows.shape)
