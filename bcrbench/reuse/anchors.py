"""The anchor pool: segments stored with the deviation that a prefix caused in them (paper Eq. 1).

One bucket per shared segment name. Each anchor's rows lie in contiguous buffers [tokens, features] of just its size,
with features = layers * kv_heads * head_dim, so that all layers are served by one pass and nothing is kept that no
anchor holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bcrbench.reuse.block import Block, flatten

CAPACITY = 20  # the pool holds up to capacity + 1, since eviction asks for more than capacity
WINDOW = 5


@dataclass(frozen=True)
class Stored:
    """Keys and values of some rows, [tokens, features] each."""

    keys: Tensor
    values: Tensor

    @classmethod
    def of(cls, block: Block, host: bool) -> Stored:
        """A block's rows where they are; with `host`, in main memory, pinned where there is a GPU to copy to."""
        keys, values = (flatten(rows).contiguous() for rows in (block.keys, block.values))
        return cls(_on_host(keys), _on_host(values)) if host else cls(keys, values)

    @property
    def bytes(self) -> int:
        """Bytes of both."""
        return self.keys.nbytes + self.values.nbytes


def _on_host(rows: Tensor) -> Tensor:
    if rows.device.type != "cuda":
        return rows
    return torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True).copy_(rows)


@dataclass
class Deviations:
    """What one consumer's prefix did to an anchor's segment, and to the fixed segment that follows it."""

    segment: Stored
    after: Stored


@dataclass
class Anchor:
    """One stored segment: its base rows, each consumer's deviations, how often the gate activated it."""

    key: str
    base: Stored
    count: int = 0
    deviations: dict[str, Deviations] = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Rows of the segment."""
        return int(self.base.keys.shape[0])

    @property
    def bytes(self) -> int:
        """Bytes of everything that is kept."""
        return self.base.bytes + sum(kept.segment.bytes + kept.after.bytes for kept in self.deviations.values())


class Bucket:
    """The anchors of one shared segment name, in insertion order."""

    def __init__(self, capacity: int = CAPACITY, window: int = WINDOW, host: bool = False) -> None:
        self.capacity = capacity
        self.window = window
        self.host = host
        self.anchors: list[Anchor] = []

    @property
    def bytes(self) -> int:
        """Bytes of all anchors."""
        return sum(anchor.bytes for anchor in self.anchors)

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
        self.make_way()
        self.keep(key, consumer, base, delta, after)

    def make_way(self) -> None:
        """Evict one anchor when there are more than capacity, as released: also for a second consumer of an item."""
        if len(self.anchors) > self.capacity:
            self.anchors.remove(least_used(self.anchors[: self.window]))

    def keep(self, key: str, consumer: str, base: Block, delta: Block, after: Block) -> None:
        """Store without evicting (`store`)."""
        anchor = self.find(key)
        stored = Stored.of(base, self.host)
        if anchor is None:
            anchor = Anchor(key, stored)
            self.anchors.append(anchor)
        if anchor.tokens != base.tokens:
            raise ValueError(f"anchor {key!r} holds {anchor.tokens} rows, got {base.tokens}")
        anchor.base = stored
        anchor.deviations[consumer] = Deviations(Stored.of(delta, self.host), Stored.of(after, self.host))
        for name, block in (("base", base), (f"{consumer}/segment", delta), (f"{consumer}/after", after)):
            anchor.sums[name] = _sum(block.keys) + 3.0 * _sum(block.values)


def least_used(anchors: list[Anchor]) -> Anchor:
    """The anchor that the gate activated least often, the oldest of several."""
    return min(anchors, key=lambda anchor: anchor.count)


class Pool:
    """All buckets of a run, within a budget of bytes if one is given; `host` keeps rows in main memory.

    The budget evicts by each bucket's own rule, never an anchor of the item that is being stored: all its consumers
    add to it, and one that lacks some of them would predict too little for those. Where nothing else can go, the item
    is not stored at all.
    """

    def __init__(
        self, capacity: int = CAPACITY, window: int = WINDOW, budget: int | None = None, host: bool = False
    ) -> None:
        self.capacity = capacity
        self.window = window
        self.budget = budget
        self.host = host
        self.buckets: dict[str, Bucket] = {}
        self.evicted_for_bytes = 0
        self.refused_for_bytes = 0
        self._peak = 0
        self._refused: set[tuple[str, str]] = set()  # of the item that is being stored

    @property
    def bytes(self) -> int:
        """Bytes that the anchors hold now."""
        return sum(bucket.bytes for bucket in self.buckets.values())

    @property
    def peak_bytes(self) -> int:
        """The most that they ever held."""
        return max(self._peak, self.bytes)

    def bucket(self, name: str) -> Bucket:
        """The bucket of a shared segment, made on first use."""
        return self.buckets.setdefault(name, Bucket(self.capacity, self.window, self.host))

    def store(self, name: str, key: str, consumer: str, base: Block, delta: Block, after: Block) -> None:
        """Store an anchor in a segment's bucket as far as the budget lets (Bucket.store)."""
        bucket = self.bucket(name)
        bucket.make_way()
        if self.budget is None or self._room(bucket, name, key, consumer, [base, delta, after]):
            bucket.keep(key, consumer, base, delta, after)
            self._peak = max(self._peak, self.bytes)

    def _room(self, bucket: Bucket, name: str, key: str, consumer: str, blocks: list[Block]) -> bool:
        """Whether an anchor's new parts fit, after what may be evicted is."""
        self._refused = {place for place in self._refused if place[1] == key}
        if (name, key) in self._refused:
            return False
        anchor = bucket.find(key)
        parts = blocks if anchor is None else blocks[1:] if consumer not in anchor.deviations else []
        needed = sum(block.keys.nbytes + block.values.nbytes for block in parts)
        assert self.budget is not None
        for crowded, victim in self._victims(key):
            if self.bytes + needed <= self.budget:
                break
            crowded.anchors.remove(victim)
            self.evicted_for_bytes += 1
        if self.bytes + needed <= self.budget:
            return True
        if anchor is not None:
            bucket.anchors.remove(anchor)
        self._refused.add((name, key))
        self.refused_for_bytes += 1
        return False

    def _victims(self, key: str) -> Iterator[tuple[Bucket, Anchor]]:
        """What may be evicted for an item, the largest bucket's first; each is gone before the next is asked for."""
        while True:
            others = {
                name: found
                for name, bucket in sorted(self.buckets.items())
                if (found := [anchor for anchor in bucket.anchors if anchor.key != key])
            }
            if not others:
                return
            name = max(others, key=lambda name: self.buckets[name].bytes)
            yield self.buckets[name], least_used(others[name][: self.window])

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
