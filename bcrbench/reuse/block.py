"""Rows of a segment, token-major, on their way between caches and the anchor pool."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.rope import rotate


@dataclass(frozen=True)
class Block:
    """Keys and values [tokens, layers, kv_heads, head_dim]; the first token's keys are rotated to `origin`."""

    keys: Tensor
    values: Tensor
    origin: int

    @property
    def tokens(self) -> int:
        """Rows in the block."""
        return int(self.keys.shape[0])

    def moved(self, origin: int, inv_freq: Tensor) -> Block:
        """The same rows with keys rotated so that the first token stands at `origin`."""
        return Block(rotate(self.keys, origin - self.origin, inv_freq), self.values, origin)

    def head(self, tokens: int) -> Block:
        """The first rows."""
        return Block(self.keys[:tokens], self.values[:tokens], self.origin)


def read(cache: SlotCache, start: int, end: int) -> Block:
    """Copy rows [start, end) out of a cache."""
    return Block(_copied(cache.keys[:, 0, :, start:end]), _copied(cache.values[:, 0, :, start:end]), start)


def _copied(rows: Tensor) -> Tensor:
    # contiguous() would hand out the cache itself where one layer and one head leave nothing to reorder
    return rows.permute(2, 0, 1, 3).clone(memory_format=torch.contiguous_format)


def write(cache: SlotCache, start: int, block: Block) -> None:
    """Write a block's rows into the slots from `start` on; its keys must stand there already."""
    end = start + block.tokens
    cache.keys[:, 0, :, start:end] = block.keys.permute(1, 2, 0, 3)
    cache.values[:, 0, :, start:end] = block.values.permute(1, 2, 0, 3)
    cache.length = max(cache.length, end)


def flatten(rows: Tensor) -> Tensor:
    """Rows [tokens, layers, kv_heads, head_dim] as [tokens, features]; no rows stay no rows."""
    return rows.reshape(rows.shape[0], prod(rows.shape[1:]))
