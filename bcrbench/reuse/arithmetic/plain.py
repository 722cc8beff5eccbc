"""The reference: whole segments in PyTorch, one anchor after another so that no difference is kept for later.

On CUDA the same functions are compiled, which makes one kernel of each sum and of each blend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from bcrbench.engine.rope import rotate
from bcrbench.reuse.arithmetic.base import Correction, Gaps, Turn, on
from bcrbench.reuse.block import flatten

GROUP = 4  # anchors blended at once: what is blended into is read and written once for them
Compiler = Callable[[Any], Any]


def row_sums(stored: Tensor, flat: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of absolute differences by row, and of squared ones."""
    gap = stored.float() - flat
    return gap.abs().sum(1), gap.square().sum(1)


def channel_sums(stored: Tensor, flat: Tensor) -> Tensor:
    """Sums of squared differences by channel."""
    return (stored.float() - flat).square().sum(0)


def blended(total: Tensor, deltas: list[Tensor], factors: list[Tensor]) -> Tensor:
    """What is blended so far, with a few anchors' deviations more."""
    for delta, factor in zip(deltas, factors, strict=True):
        total = total + delta.float() * factor
    return total


class Plain:
    """PyTorch on any device, in any type; sums in float32. `compiler` gets the functions that read anchors."""

    def __init__(self, name: str = "plain", compiler: Compiler = lambda function: function) -> None:
        self.name = name
        self._row_sums, self._channel_sums, self._blended = map(compiler, (row_sums, channel_sums, blended))

    def gaps(self, rows: Tensor, turn: Turn | None, stored: Sequence[Tensor]) -> Gaps:
        """Gaps of rows to stored anchors (base.Arithmetic)."""
        flat = flatten(_turned(rows, turn)).float()
        tokens, features = flat.shape
        by_row = flat.new_empty((len(stored), tokens))
        by_channel = flat.new_empty((len(stored), features))
        total = flat.new_empty(len(stored))
        for i, kept in enumerate(stored):
            anchor = on(flat.device, kept)
            by_row[i], squares = self._row_sums(anchor[:tokens], flat)
            by_channel[i] = self._channel_sums(anchor[anchor.shape[0] - tokens :], flat)
            total[i] = squares.sum()
        return Gaps(list(stored), by_row, by_channel, total)

    def place(
        self, rows: Tensor, turn: Turn | None, correction: Correction | None, back: Turn | None, slots: Tensor
    ) -> None:
        """Write rows into slots (base.Arithmetic)."""
        placed = _turned(rows, turn)
        if correction is not None:
            placed = self._corrected(placed, correction)
        slots.copy_(_turned(placed, back).permute(1, 2, 0, 3))

    def _corrected(self, rows: Tensor, correction: Correction) -> Tensor:
        flat, skip = flatten(rows).clone(), correction.skip
        tokens = flat.shape[0]
        total = torch.zeros((tokens, flat.shape[1] - skip), dtype=torch.float32, device=flat.device)
        for first in range(0, len(correction.deltas), GROUP):
            group = slice(first, first + GROUP)
            deltas = [on(flat.device, delta[:tokens])[:, skip:] for delta in correction.deltas[group]]
            weights = correction.weights[group]
            factors = weights[:, :tokens, None] if correction.by == "row" else weights[:, None, skip:]
            total = self._blended(total, deltas, list(factors))
        flat[:, skip:] += total.to(flat.dtype)
        return flat.view(rows.shape)


def _turned(rows: Tensor, turn: Turn | None) -> Tensor:
    return rows if turn is None else rotate(rows, turn.delta, turn.inv_freq)


def compiled(device: torch.device, **options: Any) -> Plain:
    """Compiled for a device, and tried on a small segment; the uncompiled ones, saying why, where that fails.

    `options` are torch.compile's.
    """
    made = Plain("compiled", lambda function: torch.compile(function, dynamic=True, **options))
    rows = torch.zeros(6, 2, 1, 4, device=device)
    weights = torch.full((2, 6), 0.5, device=device)
    try:
        made.gaps(rows, None, [flatten(rows)] * 2)
        correction = Correction([flatten(rows)] * 2, weights, "row", 4)
        made.place(rows, None, correction, None, torch.zeros(2, 1, 6, 4, device=device))
    except (RuntimeError, ImportError, OSError) as error:  # no compiler, no driver, or a shape that it cannot do
        return Plain(f"plain (not compiled: {type(error).__name__})")
    return made
