"""The anchor pool: segments stored with the deviation that a prefix caused in them (paper Eq. 1).

One bucket per shared segment name. A bucket keeps its anchors in ring buffers [slots, tokens, features] with
features = layers * kv_heads * head_dim, so that a whole anchor is one contiguous slice and all layers are served by
one operation. Buffers grow by doubling; a slot is reused after its anchor is evicted.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bcrbench.reuse.block import Block, flatten

CAPACITY = 20  # the pool holds up to capacity + 1, since eviction asks for more than capacity
WINDOW = 5


class Ring:
    """A buffer [slots, tokens, features] that grows in its first two dimensions and keeps what it holds."""

    def __init__(self) -> None:
        self.data: Tensor | None = None

    def put(self, slot: int, rows: Tensor) -> None:
        """Write rows [tokens, ...] into a slot; features are flattened."""
        flat = flatten(rows)
        self._reserve(slot + 1, flat)
        assert self.data is not None
        self.data[slot, : flat.shape[0]] = flat

    def rows(self, slot: int, start: int, end: int) -> Tensor:
        """A view [tokens, features] of one slot."""
        assert self.data is not None
        return self.data[slot, start:end]

    def _reserve(self, slots: int, like: Tensor) -> None:
        old = self.data
        if old is None:
            self.data = like.new_zeros((max(4, slots), like.shape[0], like.shape[1]))
            return
        if slots <= old.shape[0] and like.shape[0] <= old.shape[1]:
            return
        tokens = old.shape[1] if like.shape[0] <= old.shape[1] else max(like.shape[0], old.shape[1] * 5 // 4)
        room = old.shape[0] if slots <= old.shape[0] else max(slots, old.shape[0] * 2)
        self.data = old.new_zeros((room, tokens, old.shape[2]))
        self.data[: old.shape[0], : old.shape[1]] = old


@dataclass
class Deltas:
    """Deviations of one consumer: of the shared segment, and of the fixed segment that follows it."""

    keys: Ring = field(default_factory=Ring)
    values: Ring = field(default_factory=Ring)
    after_keys: Ring = field(default_factory=Ring)
    after_values: Ring = field(default_factory=Ring)


@dataclass
class Anchor:
    """Bookkeeping of one anchor: where it lies, how long it is, how often the gate activated it."""

    key: str
    slot: int
    tokens: int
    count: int = 0
    consumers: set[str] = field(default_factory=set)
    sums: dict[str, float] = field(default_factory=dict)


class Bucket:
    """The anchors of one shared segment name, in insertion order."""

    def __init__(self, capacity: int = CAPACITY, window: int = WINDOW) -> None:
        self.capacity = capacity
        self.window = window
        self.anchors: list[Anchor] = []
        self.base_keys = Ring()
        self.base_values = Ring()
        self.deltas: dict[str, Deltas] = {}

    def covering(self, tokens: int) -> list[int]:
        """Indexes of the anchors at least `tokens` long, in insertion order."""
        return [i for i, anchor in enumerate(self.anchors) if anchor.tokens >= tokens]

    def find(self, key: str) -> Anchor | None:
        """The anchor of an item, if it is here."""
        return next((anchor for anchor in self.anchors if anchor.key == key), None)

    def store(self, key: str, consumer: str, base: Block, delta: Block, after: Block) -> None:
        """Keep what one dense call of `consumer` showed: base rows, their deviation, the following segment's.

        A second consumer of the same item adds its deviations and overwrites the base, as released. Raises ValueError
        when the item's anchor has another length: two items must not share a key.
        """
        if len(self.anchors) > self.capacity:
            self._evict()
        anchor = self.find(key)
        if anchor is None:
            anchor = Anchor(key, self._free_slot(), base.tokens)
            self.anchors.append(anchor)
        if anchor.tokens != base.tokens:
            raise ValueError(f"anchor {key!r} holds {anchor.tokens} rows, got {base.tokens}")
        kept = self.deltas.setdefault(consumer, Deltas())
        parts = {
            "base": (self.base_keys, self.base_values, base),
            f"{consumer}/segment": (kept.keys, kept.values, delta),
            f"{consumer}/after": (kept.after_keys, kept.after_values, after),
        }
        for name, (keys, values, block) in parts.items():
            keys.put(anchor.slot, block.keys)
            values.put(anchor.slot, block.values)
            anchor.sums[name] = _sum(block.keys) + 3.0 * _sum(block.values)
        anchor.consumers.add(consumer)

    def _evict(self) -> None:
        window = self.anchors[: self.window]
        self.anchors.remove(min(window, key=lambda anchor: anchor.count))

    def _free_slot(self) -> int:
        taken = {anchor.slot for anchor in self.anchors}
        return next(slot for slot in range(len(taken) + 1) if slot not in taken)


class Pool:
    """All buckets of a run."""

    def __init__(self, capacity: int = CAPACITY, window: int = WINDOW) -> None:
        self.capacity = capacity
        self.window = window
        self.buckets: dict[str, Bucket] = {}

    def bucket(self, name: str) -> Bucket:
        """The bucket of a shared segment, made on first use."""
        return self.buckets.setdefault(name, Bucket(self.capacity, self.window))

    def hash(self) -> str:
        """16 hex digits over keys, lengths, activation counts and a float64 checksum per anchor."""
        total = hashlib.sha256()
        for name in sorted(self.buckets):
            total.update(name.encode())
            for anchor in self.buckets[name].anchors:
                sums = ",".join(f"{part}={anchor.sums[part].hex()}" for part in sorted(anchor.sums))
                total.update(f"|{anchor.key},{anchor.tokens},{anchor.count},{sums}".encode())
        return total.hexdigest()[:16]


def _sum(tensor: Tensor) -> float:
    return float(torch.sum(tensor, dtype=torch.float64))
