"""One progress view of runs that others carry out, read from their logs: the logs are all that is shared."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from bcrbench.sweep.executors.base import Ended, Say
from bcrbench.sweep.plan import Plan
from bcrbench.sweep.progress import EVERY_S

_ITEM = b'{"record":"item"'


class View:
    """A bar over all items on a terminal; elsewhere a line every 30 seconds. A context manager."""

    def __init__(self, plans: list[Plan], say: Say) -> None:
        self.plans, self.say = plans, say
        self.total = sum(len(plan.cell.items) for plan in plans)
        self.ended = self.items = 0
        self.logs: dict[Path, GrowingLog] = {}
        self.last = monotonic()
        self.bar: Any = None

    def __enter__(self) -> View:
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=self.total, desc=f"{len(self.plans)} runs", unit="item", file=sys.stderr)
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def end(self, end: Ended) -> None:
        """Count a run that has ended, and make room for the lines about it."""
        self.ended += 1
        self.items += len(end.plan.cell.items)
        if self.bar is not None:
            self.bar.clear()

    def show(self, running: list[Plan]) -> None:
        """Show how far the runs are, when it is time."""
        now = monotonic()
        if self.bar is None and now - self.last < EVERY_S:
            return
        self.last = now
        counts = [(plan.spec.text, self._count(plan), len(plan.cell.items)) for plan in running]
        items = self.items + sum(done for _, done, _ in counts)
        each = ", ".join(f"{name} {done}/{total}" for name, done, total in counts if done)
        if self.bar is None:
            self.say(f"{self.ended}/{len(self.plans)} runs, {items}/{self.total} items" + (each and f": {each}"))
            return
        self.bar.n = items
        self.bar.set_postfix_str(each, refresh=False)
        self.bar.refresh()

    def _count(self, plan: Plan) -> int:
        """Items of a run that is being written: the log beside whose lock it is, and whose first line is the plan's."""
        counts = [0]
        for lock in Path(plan.cell.settings.out).glob("*.jsonl.lock"):
            path = lock.with_suffix("")
            log = self.logs.setdefault(path, GrowingLog(path))
            with suppress(OSError):  # it may go while we look
                log.look()
            if log.given == plan.given:
                counts.append(log.items)
        return max(counts)


class GrowingLog:
    """Counts the items of a log that another process writes, reading each line once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._forget()

    def _forget(self) -> None:
        self.offset = self.items = 0
        self.given: dict[str, Any] | None = None

    def look(self) -> None:
        """Read the whole lines that were added; all anew when lines were taken out. Raises OSError."""
        with self.path.open("rb") as file:
            if file.seek(0, 2) < self.offset:
                self._forget()
            file.seek(self.offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                if not self.offset:
                    self.given = _given(line)
                self.items += line.startswith(_ITEM)
                self.offset += len(line)


class _Head(msgspec.Struct):
    given: dict[str, Any]


def _given(line: bytes) -> dict[str, Any] | None:
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(line, type=_Head).given
    return None
