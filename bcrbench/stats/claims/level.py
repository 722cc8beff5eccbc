"""`level`: a condition is as good as a reference, within a margin. Not to be told apart is not enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from bcrbench.stats.cells import Cell
from bcrbench.stats.claims.kind import HELD, NOT_HELD, UNRESOLVED, Finding, Found, Kind, Place, Word
from bcrbench.stats.claims.pairs import gain, items_of, pairs
from bcrbench.stats.claims.places import spots
from bcrbench.stats.intervals import Interval

Margin = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class Level(Place, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`condition` within `margin` of `reference`, a fraction."""

    condition: str
    reference: str
    margin: Margin


def decide(cells: Sequence[Cell], asked: Level) -> Found:
    """Held where the whole interval of the difference lies within the margin."""
    places = spots(cells, asked, [asked.condition, asked.reference])
    found = pairs(places, asked, asked.condition, asked.reference)
    gains = [gain(group) for group in found.groups]
    versus, margin = f"{asked.condition} less {asked.reference}", f"margin {100 * asked.margin:g}"
    findings = [
        Finding(inside(one.interval, asked.margin), f"{versus} {one.told}, {margin}", items_of(one.arms))
        for one in gains
    ]
    return Found(findings, found.lacks)


def inside(found: Interval, margin: float) -> Word:
    """Whether an interval lies within +-margin, outside, or across an edge."""
    if -margin <= found.low and found.high <= margin:
        return HELD
    return NOT_HELD if found.low > margin or found.high < -margin else UNRESOLVED


KIND = Kind(Level, decide)
