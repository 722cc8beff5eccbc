"""Predicting a segment's rows: base plus a similarity-weighted sum of anchor deviations (paper Eq. 1).

Two weightings, as released: per token for the shared segment (shared by layers, heads and channels), per layer, head
and channel for the fixed segment that follows it. Keys and values are weighted by their own similarity. Layer 0
depends on no other token, so it is never corrected. What is predicted goes straight into the call's slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bcrbench.engine.cache import SlotCache
from bcrbench.reuse.anchors import Anchor, Bucket, Stored
from bcrbench.reuse.arithmetic import Arithmetic, Correction, Gaps, Turn
from bcrbench.reuse.block import Block

Part = Literal["segment", "after"]


@dataclass(frozen=True)
class Weights:
    """Blending weights over the covering anchors, float32.

    `*_rows` are [anchors, tokens], `*_channels` are [anchors, features].
    """

    anchors: list[Anchor]
    key_rows: Tensor
    value_rows: Tensor
    key_channels: Tensor
    value_channels: Tensor


def value_gaps(values: Tensor, bucket: Bucket, arithmetic: Arithmetic) -> Gaps:
    """Gaps of a segment's base values to the anchors that cover it, of which there must be one: gate and weights."""
    return arithmetic.gaps(values, None, [anchor.base.values for anchor in _covering(bucket, values.shape[0])])


def weigh(
    block: Block, there: Turn | None, bucket: Bucket, arithmetic: Arithmetic, known: Gaps | None
) -> Weights | None:
    """Weights of the anchors that cover a segment, whose keys are turned first; None when none does, or it is empty.

    All covering anchors take part, without the gate's nucleus. `known` are the gate's gaps of values, taken where the
    pool is as the gate saw it.
    """
    anchors = _covering(bucket, block.tokens)
    if not anchors or block.tokens == 0:
        return None
    if known is None or not known.of([anchor.base.values for anchor in anchors]):
        known = value_gaps(block.values, bucket, arithmetic)
    keys = arithmetic.gaps(block.keys, there, [anchor.base.keys for anchor in anchors])
    return Weights(anchors, _by_row(keys), _by_row(known), _by_channel(keys), _by_channel(known))


def _covering(bucket: Bucket, tokens: int) -> list[Anchor]:
    return [bucket.anchors[i] for i in bucket.covering(tokens)]


def _by_row(gaps: Gaps) -> Tensor:
    """Softmax over anchors of the negative mean absolute difference of each row."""
    return torch.softmax(gaps.by_row / -max(1, gaps.by_channel.shape[1]), dim=0)


def _by_channel(gaps: Gaps) -> Tensor:
    """Softmax over anchors of the negative distance in each channel."""
    return torch.softmax(-gaps.by_channel.sqrt(), dim=0)


@dataclass(frozen=True)
class Prediction:
    """A block to be predicted: where its keys stand while they are corrected, and which deviations are blended in.

    `part` is `segment` for a shared segment, `after` for the fixed one behind it.
    """

    block: Block
    frame: int
    consumer: str
    part: Part
    weights: Weights | None

    def write(self, cache: SlotCache, start: int, inv_freq: Tensor, arithmetic: Arithmetic) -> None:
        """Write the rows into the slots from `start` on, rotated to stand there."""
        end = start + self.block.tokens
        there, back = turn(self.block.origin, self.frame, inv_freq), turn(self.frame, start, inv_freq)
        keys, values = cache.keys[:, 0, :, start:end], cache.values[:, 0, :, start:end]
        arithmetic.place(self.block.keys, there, self._correction("keys"), back, keys)
        arithmetic.place(self.block.values, None, self._correction("values"), None, values)
        cache.length = max(cache.length, end)

    def _correction(self, name: Literal["keys", "values"]) -> Correction | None:
        """The blend of keys' or values' deviations; an anchor without this consumer's adds nothing."""
        if self.weights is None:
            return None
        by: Literal["row", "channel"] = "row" if self.part == "segment" else "channel"
        every: Tensor = getattr(self.weights, f"{name[:-1]}_{by}s")
        holding = [i for i, anchor in enumerate(self.weights.anchors) if self.consumer in anchor.deviations]
        kept = [self._stored(self.weights.anchors[i]) for i in holding]
        skip = self.block.keys.shape[2] * self.block.keys.shape[3]
        return Correction([getattr(stored, name) for stored in kept], every[holding], by, skip)

    def _stored(self, anchor: Anchor) -> Stored:
        kept: Stored = getattr(anchor.deviations[self.consumer], self.part)
        return kept


def turn(origin: int, to: int, inv_freq: Tensor) -> Turn | None:
    """The rotation from one position to another; None for no way at all."""
    return None if origin == to else Turn(to - origin, inv_freq)
