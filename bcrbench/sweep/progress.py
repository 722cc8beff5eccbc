"""Progress that survives log files: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Callable

from bcrbench.runs.schema import ItemRecord

EVERY_S = 30.0


class Reporter:
    """Running accuracy, reuse rate and, off a terminal, the time left; one line every `every` seconds there."""

    def __init__(self, condition: str, total: int, say: Callable[[str], None], every: float = EVERY_S) -> None:
        self.condition, self.total, self.say, self.every = condition, total, say, every
        self.done = self.correct = self.ungraded = self.calls = self.reused = self.fresh = 0
        self.begin = self.last = monotonic()
        self.bar = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=total, desc=condition, unit="item", file=sys.stderr)

    def item(self, record: ItemRecord, replayed: bool) -> None:
        """Count one item and report when it is time."""
        self.done += 1
        self.fresh += not replayed
        self.correct += record.outcome == "correct"
        self.ungraded += record.outcome == "ungraded"
        self.calls += len(record.calls)
        self.reused += sum(call.served == "reuse" for call in record.calls)
        if self.bar is not None:
            self.bar.set_postfix_str(self._rates(), refresh=False)
            self.bar.update()
            if self.done == self.total:
                self.bar.close()
            return
        now = monotonic()
        if self.done == self.total or now - self.last >= self.every:
            self.last = now
            self.say(f"{self.condition}: {self.done}/{self.total} {self._rates()}{self._left(now)}")

    def _rates(self) -> str:
        graded = self.done - self.ungraded
        correct = f"correct {self.correct / graded:.3f} " if graded else ""
        return f"{correct}reuse {self.reused / self.calls:.3f}"

    def _left(self, now: float) -> str:
        if not self.fresh or self.done == self.total:
            return f" in {now - self.begin:.0f} s"
        return f", {(now - self.begin) / self.fresh * (self.total - self.done):.0f} s left"
