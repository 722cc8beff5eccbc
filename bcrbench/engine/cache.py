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

    is_compileable = False

    def __init__(self, layers: int, kv_heads: int, head_dim: int, capacity: int, dtype: Any, device: Any) -> None:
        shape = (layers, 1, kv_heads, capacity, head_dim)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.length = 0
        self.rows: Rows | None = None  # the rows of the pass that is running

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

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Scatter the running pass's rows [1, kv_heads, n, head_dim] into their slots; return the filled part.

        Called by the model's attention layers; extra arguments of other transformers versions are not needed.
        """
        rows = self.rows
        assert rows is not None, "a pass sets its rows before the model runs"
        layer_keys, layer_values = self.keys[layer], self.values[layer]
        if rows.contiguous:
            layer_keys[:, :, rows.start : rows.end] = keys
            layer_values[:, :, rows.start : rows.end] = values
        else:
            layer_keys.index_copy_(2, rows.positions, keys)
            layer_values.index_copy_(2, rows.positions, values)
        return layer_keys[:, :, : rows.end], layer_values[:, :, : rows.end]

    def get_seq_length(self, layer: int = 0) -> int:
        """Filled rows, for the model's own bookkeeping."""
        return self.length

    def get_mask_sizes(self, query_length: Any, layer: int = 0) -> tuple[int, int]:
        """Key length and offset, for the model's own bookkeeping; masks are made by position instead."""
        return self.length, 0
