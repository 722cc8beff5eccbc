"""The slot cache: one preallocated row per prompt position, in all layers.

Rows are written by position, in any order, and a pass over a set of rows overwrites them before attention is taken.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bcrbench.engine.attention import Rows


class SlotCache:
    """Keys and values [layers, 1, kv_heads, capacity, head_dim]; `length` rows from the start are filled."""

    def __init__(self, layers: int, kv_heads: int, head_dim: int, capacity: int, dtype: Any, device: Any) -> None:
        shape = (layers, 1, kv_heads, capacity, head_dim)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.length = 0
        self.graphs: dict[int, Any] = {}  # steps captured on these very slots, by bucket (steps.py)

    @property
    def layers(self) -> int:
        """Layers that are kept."""
        return int(self.keys.shape[0])

    @property
    def capacity(self) -> int:
        """Rows that fit."""
        return int(self.keys.shape[3])

    def reserve(self, capacity: int) -> None:
        """Grow to at least `capacity` rows, keeping the filled ones."""
        if capacity <= self.capacity:
            return
        room = max(capacity, self.capacity * 3 // 2)
        for name in ("keys", "values"):
            old: Tensor = getattr(self, name)
            new = old.new_zeros((*old.shape[:3], room, old.shape[4]))
            new[:, :, :, : self.length] = old[:, :, :, : self.length]
            setattr(self, name, new)
        self.graphs.clear()

    def put(self, layer: int, keys: Tensor, values: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Scatter a pass's rows [n, kv_heads, head_dim] into a layer's slots.

        Returns the filled part, keys and values [1, kv_heads, end, head_dim].
        """
        filled = []
        for slots, fresh in ((self.keys[layer], keys), (self.values[layer], values)):
            if rows.contiguous:
                slots[0, :, rows.start : rows.end] = fresh.transpose(0, 1)
            else:
                slots[0].index_copy_(1, rows.positions, fresh.transpose(0, 1))
            filled.append(slots[:, :, : rows.end])
        return filled[0], filled[1]
