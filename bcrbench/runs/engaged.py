"""Did a repair engage? A run that never repaired a call measures its baseline under another name (paper App. H).

Read from the item records alone, so that a run, a resumed run and `bcrbench verify` judge alike.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Iterable

from bcrbench.runs.schema import ItemRecord


@dataclass
class Engagement:
    """Calls of a run by what a repair did in them; `skipped` counts the reasons for doing nothing."""

    calls: int = 0
    reused: int = 0
    repaired: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    def add(self, item: ItemRecord) -> None:
        """Count one item's calls."""
        self.calls += len(item.calls)
        self.reused += sum(call.served == "reuse" for call in item.calls)
        self.repaired += sum(call.rows.selected > 0 for call in item.calls)
        self.skipped.update(call.skipped for call in item.calls if call.skipped is not None)

    @property
    def told(self) -> str:
        """The counts and the reasons in words."""
        reasons = "; ".join(f"{why}: {count}" for why, count in self.skipped.most_common())
        return (
            f"{self.reused} of {self.calls} calls reused, {self.repaired} repaired, {self.skipped.total()} skipped"
            f"{f' ({reasons})' if reasons else ''}"
        )


def engagement(items: Iterable[ItemRecord]) -> Engagement:
    """Count what a repair did over a run's items."""
    seen = Engagement()
    for item in items:
        seen.add(item)
    return seen
