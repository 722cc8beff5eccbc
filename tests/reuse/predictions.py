"""Gate and prediction as a run makes them, on blocks that a test holds; under every arithmetic."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bcrbench.engine.cache import SlotCache
from bcrbench.reuse.anchors import Bucket
from bcrbench.reuse.arithmetic import Arithmetic
from bcrbench.reuse.arithmetic.fused import Fused
from bcrbench.reuse.arithmetic.plain import Plain
from bcrbench.reuse.assemble import Part, Prediction, Weights, value_gaps
from bcrbench.reuse.block import Block, read
from bcrbench.reuse.gate import decide
from bcrbench.runs.schema import Gate

KINDS: list[Arithmetic] = [Plain(), Fused()]
ARITHMETIC = pytest.mark.parametrize("arithmetic", KINDS, ids=[kind.name for kind in KINDS])
NOWHERE = torch.tensor([1.0])


def gated(name: str, values: Tensor, bucket: Bucket, gamma: float, arithmetic: Arithmetic) -> Gate:
    """The gate's decision on a segment's base values."""
    return decide(name, values.shape[0], bucket, gamma, lambda: value_gaps(values, bucket, arithmetic))


def predicted(
    block: Block,
    consumer: str,
    part: Part,
    weights: Weights | None,
    arithmetic: Arithmetic,
    start: int | None = None,
    inv_freq: Tensor = NOWHERE,
    frame: int | None = None,
) -> Block:
    """A block as a prediction writes it into a cache; its frame and start are where it stands unless they are given."""
    start = block.origin if start is None else start
    frame = block.origin if frame is None else frame
    tokens, layers, heads, dim = block.keys.shape
    cache = SlotCache(layers, heads, dim, start + tokens + 2, block.keys.dtype, "cpu")
    Prediction(block, frame, consumer, part, weights).write(cache, start, inv_freq, arithmetic)
    for rows in (cache.keys, cache.values):
        assert not rows[:, :, :, :start].any() and not rows[:, :, :, start + tokens :].any(), "wrote beyond its slots"
    assert cache.length == start + tokens
    return read(cache, start, start + tokens)
