"""`line`: conditions near Eq. 3's line through Dense and an end that reuses (section 4.2, Table 7).

A residual is one number an item: what the condition solves, less what the two ends solve at their weights. The reuse
rates, of thousands of calls, count as known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.claims.kind import UNRESOLVED, Finding, Found, Kind, Place
from bcrbench.stats.claims.level import Margin, inside
from bcrbench.stats.claims.pairs import Pair, items_of, marks, mean_of, pairs, points, size
from bcrbench.stats.claims.places import spots
from bcrbench.stats.paper_tables import measures


class Line(Place, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`conditions` within `within`, a fraction, of the line through Dense and `end`."""

    conditions: Annotated[list[str], msgspec.Meta(min_length=1)]
    within: Margin
    end: str = "kvcomm"


def decide(cells: Sequence[Cell], asked: Line) -> Found:
    """Held where every residual's interval lies within the distance."""
    made = Found()
    for spot in spots(cells, asked, ["dense", asked.end, *asked.conditions]):
        ends = pairs([spot], asked, asked.end, "dense")
        made.lacks += ends.lacks
        for condition in asked.conditions:
            found = pairs([spot], asked, condition, "dense")
            made.lacks += [lack for lack in found.lacks if lack not in ends.lacks]
            if ends.groups:
                made.findings += [_finding(pair, ends.groups[0][0], asked) for group in found.groups for pair in group]
    return made


def _finding(pair: Pair, end: Pair, asked: Line) -> Finding:
    arms = [pair.first, pair.second, end.first]
    where = ", ".join([size(arms), *marks(arms), pair.where])
    rate, most = measures.reuse(pair.first) or 0.0, measures.reuse(end.first) or 0.0
    if not most:
        return Finding(UNRESOLVED, f"{end.first.label} reused no call, so there is no line, {where}", items_of(arms))
    mean, interval = mean_of(residuals(pair.first, pair.second, end.first, rate / most))
    told = f"{pair.first.label} {points(mean)} points [{points(interval.low)}, {points(interval.high)}] off the line"
    full = f"{told} at a reuse rate of {rate:.3f}, {where}"
    return Finding(inside(interval, asked.within), full, items_of(arms))


def residuals(row: Arm, dense: Arm, end: Arm, weight: float) -> list[float]:
    """Per item, what the row solves beyond the line; `weight` is its reuse rate over the end's."""
    return [
        one - (1 - weight) * two - weight * three
        for one, two, three in zip(row.solved, dense.solved, end.solved, strict=True)
    ]


KIND = Kind(Line, decide)
