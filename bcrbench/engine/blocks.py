"""Attention on one core of a CPU: key blocks against all rows that see them, in float32.

A block of keys stays in the cache while the rows from its first position on pass by it in chunks. Scattered rows then
cost no more than close ones: what is computed and hidden is half a block a row, whatever lies between the rows.
Softmax is the running one (Milakov and Gimelshein, 2018), so no score is kept beyond its block.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bcrbench.engine import loops
from bcrbench.engine.attention import Rows, whole_prompt

KEYS = 256  # keys a block
CHUNK = 768  # query rows a product: its scores take 768 KiB, of the order of a second-level cache


def blocks(query: Tensor, key: Tensor, value: Tensor, rows: Rows, scale: float) -> Tensor:
    """Whole prompts by PyTorch's causal call, which is as fast there; one row in one reading; other rows in blocks."""
    if rows.whole:
        return whole_prompt(query, key, value, scale)
    heads, count, dim = query.shape[1:]
    kv_heads = key.shape[1]
    group = heads // kv_heads
    # A row's queries that share a key head are neighbours: rows [row, head] ascend with positions.
    asking = (query[0] * scale).view(kv_heads, group, count, dim).transpose(1, 2).reshape(kv_heads, -1, dim)
    out = torch.zeros_like(asking)
    attend = _alone if count == 1 else _by_blocks
    for head in range(kv_heads):
        attend(asking[head], key[0, head], value[0, head], rows, out[head])
    return out.view(kv_heads, count, group, dim).transpose(1, 2).reshape(1, heads, count, dim)


def _alone(query: Tensor, keys: Tensor, values: Tensor, rows: Rows, out: Tensor) -> None:
    if "weights" not in rows.work:
        rows.work["weights"] = np.empty((query.shape[0], keys.shape[0]), dtype=np.float32)
    loops.attend_alone(query.numpy(), keys.numpy(), values.numpy(), rows.work["weights"], out.numpy())


@dataclass
class _Scratch:
    """What all layers of a pass use again: each query row's position, and room for its scores and sums."""

    positions: np.ndarray
    scores: Tensor
    tops: Tensor
    top: np.ndarray
    total: np.ndarray

    @classmethod
    def of(cls, rows: Rows, group: int) -> _Scratch:
        """For `group` queries a row."""
        positions = np.repeat(rows.listed, group)
        sums = (np.empty(len(positions), dtype=np.float32) for _ in range(2))
        return cls(positions, torch.empty(CHUNK * KEYS), torch.empty(CHUNK), *sums)


def _by_blocks(query: Tensor, keys: Tensor, values: Tensor, rows: Rows, out: Tensor) -> None:
    count = query.shape[0]
    group = count // len(rows)
    if "scratch" not in rows.work:
        rows.work["scratch"] = _Scratch.of(rows, group)
    scratch: _Scratch = rows.work["scratch"]
    scratch.top.fill(-np.inf)
    scratch.total.fill(0)
    for begin in range(0, rows.end, KEYS):
        end = min(begin + KEYS, rows.end)
        turned, block = keys[begin:end].t(), values[begin:end]
        for first in range(group * bisect_left(rows.listed, begin), count, CHUNK):
            last = min(first + CHUNK, count)
            weights = _weights(query[first:last], turned, begin, end, slice(first, last), scratch, out)
            out[first:last].addmm_(weights, block)
    out.div_(torch.from_numpy(scratch.total)[:, None])


def _weights(
    query: Tensor, turned: Tensor, begin: int, end: int, chunk: slice, scratch: _Scratch, out: Tensor
) -> Tensor:
    """Weights [rows, keys] of a chunk's rows for the keys [begin, end), and the sums so far brought to their scale."""
    count = chunk.stop - chunk.start
    scores = scratch.scores[: count * (end - begin)].view(count, end - begin)
    tops, written = scratch.tops[:count], scores.numpy()
    torch.mm(query, turned, out=scores)
    if scratch.positions[chunk.start] < end - 1:
        loops.hide(written, scratch.positions[chunk], begin)
    torch.amax(scores, dim=1, out=tops)
    loops.weigh(written, tops.numpy(), scratch.top[chunk], scratch.total[chunk], out.numpy()[chunk])
    return scores
