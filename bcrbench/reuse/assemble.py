"""Predicting a segment's rows: base plus a similarity-weighted sum of anchor deviations (paper Eq. 1).

Two weightings, as released: per token for the shared segment (shared by layers, heads and channels), per layer, head
and channel for the fixed segment that follows it. Keys and values are weighted by their own similarity. Layer 0
depends on no other token, so it is never corrected.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bcrbench.reuse.anchors import Bucket, Ring
from bcrbench.reuse.block import Block, flatten


@dataclass(frozen=True)
class Weights:
    """Blending weights over the covering anchors, float32.

    `*_rows` are [anchors, tokens], `*_channels` are [anchors, features].
    """

    slots: list[int]
    key_rows: Tensor
    value_rows: Tensor
    key_channels: Tensor
    value_channels: Tensor


def weigh(block: Block, bucket: Bucket) -> Weights | None:
    """Weights of the anchors that cover a placed segment; None when there is none, or the segment is empty.

    All covering anchors take part, without the gate's nucleus.
    """
    covering = bucket.covering(block.tokens)
    if not covering or block.tokens == 0:
        return None
    anchors = [bucket.anchors[i] for i in covering]
    places = [(anchor.slot, anchor.tokens) for anchor in anchors]
    key_rows, key_channels = _similarity(block.keys, bucket.base_keys, places)
    value_rows, value_channels = _similarity(block.values, bucket.base_values, places)
    return Weights([anchor.slot for anchor in anchors], key_rows, value_rows, key_channels, value_channels)


def _similarity(rows: Tensor, stored: Ring, places: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    flat = flatten(rows).float()
    tokens, features = flat.shape
    by_row = flat.new_empty((len(places), tokens))
    by_channel = flat.new_empty((len(places), features))
    gap = torch.empty_like(flat)  # one buffer for all anchors: fresh pages would cost more than the arithmetic
    for i, (slot, length) in enumerate(places):
        torch.sub(stored.rows(slot, length - tokens, length), flat, out=gap)
        by_channel[i] = gap.square_().sum(0)
        if length == tokens:
            gap.sqrt_()  # first and last rows are the same: the squares give the absolute gaps back
        else:
            torch.sub(stored.rows(slot, 0, tokens), flat, out=gap).abs_()
        by_row[i] = gap.sum(1)
    return torch.softmax(by_row.div_(-features), dim=0), torch.softmax(-by_channel.sqrt_(), dim=0)


def corrected(block: Block, bucket: Bucket, consumer: str, weights: Weights) -> Block:
    """The shared segment's rows with the blended deviation added in all layers but the first."""
    kept = bucket.deltas[consumer]
    keys = _add_by_row(block.keys, kept.keys, weights.slots, weights.key_rows)
    values = _add_by_row(block.values, kept.values, weights.slots, weights.value_rows)
    return Block(keys, values, block.origin)


def corrected_after(block: Block, bucket: Bucket, consumer: str, weights: Weights) -> Block:
    """The following fixed segment's rows with the blended deviation added in all layers but the first."""
    kept = bucket.deltas[consumer]
    keys = _add_by_channel(block.keys, kept.after_keys, weights.slots, weights.key_channels)
    values = _add_by_channel(block.values, kept.after_values, weights.slots, weights.value_channels)
    return Block(keys, values, block.origin)


def _add_by_row(rows: Tensor, deltas: Ring, slots: list[int], weights: Tensor) -> Tensor:
    flat, skip = _flat(rows)
    assert deltas.data is not None
    tokens = flat.shape[0]
    used = max(slots) + 1
    # One batched product over all slots; slots that take no part weigh nothing.
    full = weights.new_zeros((tokens, 1, used))
    full[:, 0, slots] = weights.T
    stored = deltas.data[:used, :tokens, skip:].transpose(0, 1)
    blended = torch.bmm(full, stored.float()) if stored.dtype != torch.float32 else torch.bmm(full, stored)
    flat[:, skip:] += blended[:, 0].to(flat.dtype)
    return flat.view(rows.shape)


def _add_by_channel(rows: Tensor, deltas: Ring, slots: list[int], weights: Tensor) -> Tensor:
    flat, skip = _flat(rows)
    total = torch.zeros((flat.shape[0], flat.shape[1] - skip), dtype=torch.float32, device=flat.device)
    for slot, weight in zip(slots, weights):
        total.addcmul_(deltas.rows(slot, 0, flat.shape[0])[:, skip:].float(), weight[skip:])
    flat[:, skip:] += total.to(flat.dtype)
    return flat.view(rows.shape)


def _flat(rows: Tensor) -> tuple[Tensor, int]:
    """A copy of rows [tokens, layers, heads, dim] as [tokens, features], and the features of layer 0."""
    skip = rows.shape[2] * rows.shape[3]
    return flatten(rows).clone(), skip
