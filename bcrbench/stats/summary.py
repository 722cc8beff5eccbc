"""One row a condition: accuracy, discordant split, reuse and time, as numbers.

Percents are fractions, times are milliseconds, None stands for what does not apply.
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

from bcrbench.stats.arms import Arm
from bcrbench.stats.intervals import newcombe, wilson
from bcrbench.stats.latency import median_of
from bcrbench.stats.paired import mcnemar, split

Row = dict[str, Any]

COLUMNS = (
    "condition", "n", "correct", "accuracy", "ci_low", "ci_high", "b", "c", "discordant", "p",
    "reuse_rate", "rows_recomputed", "ttft_ms", "e2e_ms",
)  # fmt: skip


def main_row(arm: Arm, reference: Arm | None) -> Row:
    """The main table's row, less its `condition`.

    `b` counts items that only the reference solves, `c` those that only the arm does.
    """
    calls = [call for item in arm.items for call in item.calls]
    counted = _share("correct", sum(arm.solved), len(arm.items))
    return {
        **({**dict.fromkeys(counted), "n": len(arm.items)} if arm.ungraded else counted),
        **_paired(arm, reference),
        "reuse_rate": fmean([call.served == "reuse" for call in calls]) if calls else None,
        "rows_recomputed": fmean([call.rows.recomputed for call in calls]) if calls else None,
        "ttft_ms": median_of([call.ttft_ms for call in calls if not call.warm_up]),
        "e2e_ms": median_of([1000 * item.wall_s for item in arm.items]),
    }


def _share(name: str, k: int, n: int) -> Row:
    low, high = wilson(k, n) if n else (None, None)
    return {"n": n, name: k, "accuracy": k / n if n else None, "ci_low": low, "ci_high": high}


def _paired(arm: Arm, reference: Arm | None) -> Row:
    if reference is None or not paired_with(reference, arm):
        return {"b": None, "c": None, "discordant": None, "p": None}
    found = split(reference.solved, arm.solved)
    return {"b": found.b, "c": found.c, "discordant": found.discordant, "p": mcnemar(*found)}


def paired_with(reference: Arm | None, arm: Arm) -> bool:
    """Whether there is a pairing to compute: another arm, and every item of both graded."""
    return reference is not None and reference is not arm and not reference.ungraded and not arm.ungraded


def difference_row(arm: Arm, reference: Arm | None) -> Row:
    """The arm's accuracy less the reference's, with Newcombe's interval for paired proportions."""
    if reference is None or not paired_with(reference, arm) or not arm.items:
        return {"difference": None, "diff_low": None, "diff_high": None}
    b, c = split(reference.solved, arm.solved)
    both = sum(arm.solved) - c
    low, high = newcombe(both, c, b, len(arm.items) - both - b - c)
    return {"difference": (c - b) / len(arm.items), "diff_low": low, "diff_high": high}


def agent_rows(arm: Arm) -> list[Row]:
    """Accuracy by role, over the calls that have a gold answer of their own."""
    roles: dict[str, list[bool]] = {}
    for call in (call for item in arm.items for call in item.calls):
        if call.outcome is not None:
            roles.setdefault(call.role, []).append(call.outcome == "correct")
    return [{"role": role, **_share("right", sum(right), len(right))} for role, right in roles.items()]
