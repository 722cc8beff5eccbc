"""What an arithmetic on segments does, and the terms it speaks in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Turn:
    """Keys are to be rotated by so many positions; `inv_freq` is [head_dim / 2], radians a position."""

    delta: int
    inv_freq: Tensor


@dataclass(frozen=True)
class Gaps:
    """How far a segment's rows are from those of anchors at least as long, float32.

    `by_row` [anchors, tokens] sums absolute differences to an anchor's first rows, `by_channel` [anchors, features]
    squared ones to its last rows, `total` [anchors] squared ones to its first rows, over everything. `stored` is what
    was compared with.
    """

    stored: list[Tensor]
    by_row: Tensor
    by_channel: Tensor
    total: Tensor

    def of(self, stored: Sequence[Tensor]) -> bool:
        """Whether these are the gaps to exactly these tensors."""
        return len(stored) == len(self.stored) and all(a is b for a, b in zip(self.stored, stored, strict=True))


@dataclass(frozen=True)
class Correction:
    """A blend of anchors' deviations, to be added to rows from feature `skip` on.

    `deltas` are [at least tokens, features] each; `weights` is [anchors, tokens] with `by="row"`, else
    [anchors, features], float32.
    """

    deltas: list[Tensor]
    weights: Tensor
    by: Literal["row", "channel"]
    skip: int


class Arithmetic(Protocol):
    """Rows come as [tokens, layers, kv_heads, head_dim]; anchors' as [tokens, features]."""

    name: str

    def gaps(self, rows: Tensor, turn: Turn | None, stored: Sequence[Tensor]) -> Gaps:
        """Gaps of rows, turned first, to stored anchors; there is at least one, and each has as many rows or more."""

    def place(
        self, rows: Tensor, turn: Turn | None, correction: Correction | None, back: Turn | None, slots: Tensor
    ) -> None:
        """Write rows, turned, corrected and turned once more, into `slots` [layers, kv_heads, tokens, head_dim]."""


def on(device: torch.device, tensor: Tensor) -> Tensor:
    """A tensor on a device; what lies there already is not copied, what lies in pinned memory is not waited for."""
    return tensor if tensor.device == device else tensor.to(device, non_blocking=True)
