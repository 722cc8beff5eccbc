"""The measurements that several tables print, from one run each; None where there is nothing to measure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from bcrbench.runs.log import CallOutcome, ItemOutcome
from bcrbench.stats.arms import Arm
from bcrbench.stats.intervals import Interval, wilson
from bcrbench.stats.paired import Split, mcnemar, pool


def accuracy(arm: Arm | None) -> float | None:
    """Share of items solved."""
    return arm.accuracy if arm is not None else None


def interval(arm: Arm | None) -> Interval | None:
    """Wilson's 95 % interval of the accuracy."""
    return wilson(sum(arm.solved), len(arm.items)) if arm is not None and arm.accuracy is not None else None


def calls_of(items: Sequence[ItemOutcome]) -> list[CallOutcome]:
    """The items' calls."""
    return [call for item in items for call in item.calls]


def reuse(arm: Arm | None, items: Sequence[ItemOutcome] | None = None) -> float | None:
    """Share of calls served without a dense prefill, of all items or of some."""
    calls = calls_of(items if items is not None else arm.items) if arm is not None else []
    return fmean(call.served == "reuse" for call in calls) if calls else None


def served(arm: Arm | None) -> tuple[int, int] | None:
    """Calls reused and calls prefilled."""
    if arm is None:
        return None
    reused = sum(call.served == "reuse" for call in calls_of(arm.items))
    return reused, len(calls_of(arm.items)) - reused


def rows(arm: Arm | None) -> float | None:
    """Mean rows recomputed by a repaired call; calls that nothing was repaired in do not count."""
    spent = [call.rows.recomputed for call in calls_of(arm.items) if call.rows.recomputed] if arm is not None else []
    return fmean(spent) if spent else None


def ttft(arm: Arm | None) -> float | None:
    """Mean milliseconds to a call's first token, warm-up calls left out."""
    times = [call.ttft_ms for call in calls_of(arm.items) if not call.warm_up] if arm is not None else []
    return fmean(times) if times else None


def seconds(arm: Arm | None) -> float | None:
    """Mean seconds an item."""
    return fmean(item.wall_s for item in arm.items) if arm is not None and arm.items else None


def p_of(found: Split | None) -> float | None:
    """Exact McNemar p of one cell's split."""
    return mcnemar(*found) if found is not None else None


def pooled(splits: Sequence[Split | None]) -> Split | None:
    """Sums over cells, counts only; None unless every cell is there."""
    there = [found for found in splits if found is not None]
    return pool(there) if there and len(there) == len(splits) else None
