"""`faster`: the time to the first token against a dense serving of the same call, as a ratio (Table 10).

The mean of the paired ratios and its bootstrap interval over items, whose calls share their length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from bcrbench.stats.arms import Arm
from bcrbench.stats.bootstrap import Estimate, mean_of_ratios
from bcrbench.stats.cells import Cell
from bcrbench.stats.claims.kind import HELD, NOT_HELD, UNRESOLVED, Finding, Found, Kind, Lack, Place, Word
from bcrbench.stats.claims.pairs import items_of, marks, size
from bcrbench.stats.claims.places import Spot, spots
from bcrbench.stats.paper_tables.details import detailed_items
from bcrbench.stats.paper_tables.table10 import counts


class Faster(Place, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`condition` reaches the first token at least `ratio` times sooner than its dense twins."""

    condition: str
    ratio: Annotated[float, msgspec.Meta(gt=0)]


def decide(cells: Sequence[Cell], asked: Faster) -> Found:
    """One finding a run: kernels and lengths are told apart."""
    made = Found()
    for spot in spots(cells, asked, [asked.condition]):
        arms = spot.arms(asked.condition, asked)
        if not arms:
            kernel = f" with --kernel {asked.kernel}" if asked.kernel else ""
            made.lacks.append(Lack(f"no log of {asked.condition}{kernel}", spot.told))
        made.findings += [_finding(arm, spot, asked.ratio) for arm in arms]
    return made


def _finding(arm: Arm, spot: Spot, factor: float) -> Finding:
    items = [[call for call in calls if counts(call)] for calls in detailed_items(arm)]
    row = [[call.ttft_ms for call in calls] for calls in items]
    twins = [[call.twin.ttft_ms for call in calls if call.twin] for calls in items]
    where = ", ".join([size([arm]), *marks([arm]), spot.told])
    if not any(one > 0 and two > 0 for before, after in zip(twins, row) for one, two in zip(before, after)):
        return Finding(
            UNRESOLVED, f"{arm.label}: no timed reused call beside a dense serving of it, {where}", items_of([arm])
        )
    found = mean_of_ratios(twins, row)
    calls = sum(map(len, row))
    return Finding(beyond(found, factor), f"{arm.label}: {spelled(found)}, {calls} calls, {where}", items_of([arm]))


def beyond(found: Estimate, factor: float) -> Word:
    """Whether a ratio's interval lies at or above a factor, below it, or around it."""
    if found.low is None or found.high is None:
        return UNRESOLVED
    if found.low >= factor:
        return HELD
    return NOT_HELD if found.high < factor else UNRESOLVED


def spelled(found: Estimate) -> str:
    """A ratio with its interval."""
    if found.low is None or found.high is None:
        return f"{found.value:.2f}x, no interval ({found.reason})"
    return f"{found.value:.2f}x [{found.low:.2f}, {found.high:.2f}]"


KIND = Kind(Faster, decide)
