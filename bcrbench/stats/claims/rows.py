"""`rows`: how many rows a repaired call recomputes, one condition over another (Table 15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from bcrbench.stats.arms import Arm
from bcrbench.stats.bootstrap import Estimate, ratio_of_ratios
from bcrbench.stats.cells import Cell
from bcrbench.stats.claims.faster import spelled
from bcrbench.stats.claims.kind import HELD, NOT_HELD, UNRESOLVED, Finding, Found, Kind, Lack, Place, Word
from bcrbench.stats.claims.pairs import items_of, marks, size
from bcrbench.stats.claims.places import Spot, spots
from bcrbench.stats.paper_tables import measures

Factor = Annotated[float, msgspec.Meta(gt=0)]


class RowsOf(Place, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`condition` over `reference` between `at_least` and `at_most`; or the largest of `conditions` over the smallest.

    `within` is the most that the latter may be.
    """

    condition: str | None = None
    reference: str | None = None
    at_least: Factor | None = None
    at_most: Factor | None = None
    conditions: Annotated[list[str], msgspec.Meta(min_length=2)] | None = None
    within: Factor | None = None

    def __post_init__(self) -> None:
        one = (self.condition, self.reference), (self.at_least, self.at_most)
        both = all(self.__getattribute__(key) is not None for key in ("conditions", "within"))
        other = any(value is not None for pair in one for value in pair)
        if both and not other:
            return
        whole = None not in one[0] and one[1] != (None, None) and (self.conditions, self.within) == (None, None)
        if not whole:
            raise ValueError(
                "expected condition, reference and at_least or at_most, or else conditions and within, nothing of both"
            )

    @property
    def names(self) -> list[str]:
        """The conditions that are compared."""
        return self.conditions or [name for name in (self.condition, self.reference) if name is not None]


def decide(cells: Sequence[Cell], asked: RowsOf) -> Found:
    """One finding a cell: a budget is a property of its runs, whatever their items."""
    made = Found()
    for spot in spots(cells, asked, asked.names):
        arms = {name: spot.arms(name, asked) for name in asked.names}
        absent = [name for name, found in arms.items() if not found]
        made.lacks += [Lack(f"no log of {name}", spot.told) for name in absent]
        if not absent:
            made.findings.append(_finding([found[0] for found in arms.values()], spot, asked))
    return made


def _finding(arms: list[Arm], spot: Spot, asked: RowsOf) -> Finding:
    spent = [measures.rows(arm) for arm in arms]
    where = ", ".join([size(arms), *marks(arms), spot.told])
    unspent = [arm.label for arm, rows in zip(arms, spent, strict=True) if not rows]
    if unspent:
        return Finding(UNRESOLVED, f"no repaired call of {', '.join(unspent)}, {where}", items_of(arms))
    first, second = arms[0], arms[1]
    if asked.conditions:
        ranked = sorted(zip(spent, range(len(arms)), strict=True), key=lambda one: one[0] or 0.0)
        first, second = arms[ranked[-1][1]], arms[ranked[0][1]]
    found = ratio(first, second)
    bounds = (None, asked.within) if asked.conditions else (asked.at_least, asked.at_most)
    told = f"{first.label} over {second.label} {spelled(found)}, {where}"
    return Finding(between(found, *bounds), told, items_of([first, second]))


def ratio(first: Arm, second: Arm) -> Estimate:
    """Mean rows of a repaired call, first over second, items resampled: together where both ran the same."""
    return ratio_of_ratios(_spent(first), _spent(second), paired=first.ids == second.ids)


def _spent(arm: Arm) -> list[tuple[float, float]]:
    """Per item, the rows recomputed and the calls that recomputed some."""
    rows = [[call.rows.recomputed for call in item.calls if call.rows.recomputed] for item in arm.items]
    return [(float(sum(own)), float(len(own))) for own in rows]


def between(found: Estimate, low: float | None, high: float | None) -> Word:
    """Whether a ratio's interval lies between two factors, beyond one of them, or across."""
    if found.low is None or found.high is None:
        return UNRESOLVED
    above = low is None or found.low >= low
    under = high is None or found.high <= high
    if above and under:
        return HELD
    outside = (low is not None and found.high < low) or (high is not None and found.low > high)
    return NOT_HELD if outside else UNRESOLVED


KIND = Kind(RowsOf, decide)
