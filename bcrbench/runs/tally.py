"""Counts over a run's items, so that the run need not keep them: the file has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bcrbench.runs.engaged import Engagement
from bcrbench.runs.schema import EndRecord, ItemRecord, Memory, Status


@dataclass
class Tally:
    """What an end record says of the items before it."""

    items: int = 0
    correct: int = 0
    new_tokens: int = 0
    wall_s: float = 0.0
    twins: int = 0
    warm_ups: int = 0
    seen: Engagement = field(default_factory=Engagement)

    def add(self, item: ItemRecord) -> None:
        """Count one item."""
        self.items += 1
        self.correct += item.outcome == "correct"
        self.new_tokens += sum(len(call.ids) for call in item.calls)
        self.wall_s += item.wall_s
        self.twins += sum(call.twin is not None for call in item.calls)
        self.warm_ups += sum(call.warm_up for call in item.calls)
        self.seen.add(item)

    def extend(self, items: Iterable[ItemRecord]) -> None:
        """Count several items."""
        for item in items:
            self.add(item)

    def end(self, status: Status, why: str, memory: Memory | None = None) -> EndRecord:
        """The run's last line."""
        return EndRecord(
            status=status,
            items=self.items,
            correct=self.correct,
            calls=self.seen.calls,
            reused=self.seen.reused,
            new_tokens=self.new_tokens,
            wall_s=self.wall_s,
            why=why,
            twins=self.twins,
            warm_ups=self.warm_ups,
            memory=memory,
        )
