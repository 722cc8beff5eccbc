"""An arm: one condition's log in a cell, with the outcomes that count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bcrbench.errors import UserError, unknown
from bcrbench.runs.log import ItemOutcome, Log
from bcrbench.runs.schema import GradeRecord, RunRecord
from bcrbench.stats.condition import Setting, setting_of

UNGRADED = "ungraded"


@dataclass(frozen=True)
class Arm:
    """A log's items, in order, with one outcome each, from the run itself or from a grader that read its texts.

    `seed` and `kernel` tell runs of one condition apart where a cell has several.
    """

    log: Log[ItemOutcome]
    items: list[ItemOutcome]
    outcomes: list[str]
    grader: str  # name and version
    seed: str | None = None
    kernel: str | None = None

    @property
    def run(self) -> RunRecord:
        """The log's first record."""
        return self.log.run

    @property
    def path(self) -> Path:
        """The log's file."""
        return self.log.path

    @property
    def condition(self) -> str:
        """The canonical condition string."""
        return self.log.run.condition

    @property
    def label(self) -> str:
        """The condition, with the run's seed and kernel where the cell has several of it."""
        told = {"seed": self.seed, "kernel": self.kernel}
        named = ", ".join(f"{key} {value}" for key, value in told.items() if value is not None)
        return f"{self.condition} [{named}]" if named else self.condition

    @cached_property
    def setting(self) -> Setting:
        """The condition's name and parameters."""
        return setting_of(self.log.run)

    @property
    def complete(self) -> bool:
        """Whether the run came to its end."""
        return self.log.status == "complete"

    @cached_property
    def solved(self) -> list[bool]:
        """Whether each item's outcome is `correct`; meaningless while some are ungraded."""
        return [outcome == "correct" for outcome in self.outcomes]

    @cached_property
    def ungraded(self) -> int:
        """Items that no grader has judged yet."""
        return self.outcomes.count(UNGRADED)

    @property
    def accuracy(self) -> float | None:
        """Share of items solved; None without items or with ungraded ones."""
        return sum(self.solved) / len(self.items) if self.items and not self.ungraded else None

    @cached_property
    def ids(self) -> list[str]:
        """The items' ids, in order."""
        return [item.id for item in self.items]

    @property
    def errors(self) -> Counter[str]:
        """How many items ended in each kind of error."""
        return Counter(outcome for outcome in self.outcomes if outcome.startswith("error:"))

    def only(self, ids: Collection[str]) -> Arm:
        """The same arm on the items with these ids."""
        kept = [(item, out) for item, out in zip(self.items, self.outcomes, strict=True) if item.id in ids]
        return replace(self, items=[item for item, _ in kept], outcomes=[out for _, out in kept])


def make_arms(logs: Sequence[Log[ItemOutcome]], grader: str | None = None) -> list[Arm]:
    """One arm a log, with the run's own outcomes or those of a named grader.

    Items that a run left ungraded take the grades that its own grader gave later. Raises UserError for a grader that
    no log knows and for a log with items that it has not graded.
    """
    if grader is not None:
        known = {grade.grader for log in logs for grade in log.grades} | {_own(log)[0] for log in logs}
        if grader not in known:
            raise unknown("grader", grader, known)
    return [_arm(log, grader) for log in logs]


def _own(log: Log[Any]) -> tuple[str, Any]:
    return str(log.run.grader.get("name")), log.run.grader.get("version")


def _arm(log: Log[ItemOutcome], grader: str | None) -> Arm:
    name, version = _own(log)
    graded = [grade for grade in log.grades if grade.grader == grader]
    if grader is None or (grader == name and not graded):
        return _own_arm(log, name, version)
    newest, by_id = _newest(graded)
    missing = [item.id for item in log.items if item.id not in by_id]
    if missing:
        raise UserError(
            f"{log.path}: {len(missing)} of {len(log.items)} items lack a grade by {grader!r} (first: {missing[0]!r}), "
            f"expected none: `bcrbench grade {log.path} --grader {grader}` adds them"
        )
    return Arm(log, log.items, [by_id[item.id] for item in log.items], f"{grader} v{newest}")


def _newest(graded: Sequence[GradeRecord]) -> tuple[int, dict[str, str]]:
    """The newest version among the grades, and its outcome by item."""
    newest = max((grade.grader_version for grade in graded), default=0)
    return newest, {grade.id: grade.outcome for grade in graded if grade.grader_version == newest}


def _own_arm(log: Log[ItemOutcome], name: str, version: Any) -> Arm:
    """The run's outcomes; what it left ungraded is looked up among its grader's later grades."""
    outcomes = [item.outcome for item in log.items]
    graded = [grade for grade in log.grades if grade.grader == name]
    if graded and UNGRADED in outcomes:
        version, by_id = _newest(graded)
        outcomes = [
            by_id.get(item.id, UNGRADED) if item.outcome == UNGRADED else item.outcome for item in log.items
        ]  # fmt: skip
    return Arm(log, log.items, outcomes, f"{name} v{version}")
