"""A condition on one side of a reference, in accuracy: what `below` and `above` share."""

from __future__ import annotations

from collections.abc import Sequence

from bcrbench.stats.cells import Cell
from bcrbench.stats.claims.kind import HELD, NOT_HELD, UNRESOLVED, Finding, Found, Place
from bcrbench.stats.claims.pairs import Gain, Pairs, gain, item_set, items_of, pairs
from bcrbench.stats.claims.places import spots
from bcrbench.stats.intervals import LEVEL


class Sided(Place, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`condition` against `reference`; of several conditions, one is enough."""

    condition: str | list[str]
    reference: str


def decide(cells: Sequence[Cell], asked: Sided, side: int) -> Found:
    """Held where the interval (or, over several cells, the sign-flip test) puts the condition on the side."""
    names = asked.condition if isinstance(asked.condition, list) else [asked.condition]
    places = spots(cells, asked, [*names, asked.reference])
    found = {name: pairs(places, asked, name, asked.reference) for name in names}
    if len(names) == 1:
        only = found[names[0]]
        versus = f"{names[0]} less {asked.reference}"
        return Found([_one(gain(group), side, versus) for group in only.groups], only.lacks)
    return _some(found, side, asked.reference)


def _one(found: Gain, side: int, versus: str) -> Finding:
    word = {side: HELD, 0: UNRESOLVED}.get(found.side, NOT_HELD)
    return Finding(word, f"{versus} {found.told}", items_of(found.arms))


def _some(found: dict[str, Pairs], side: int, reference: str) -> Found:
    """One of several conditions on the side: each is tested at a level of its share, the best is told (Bonferroni)."""
    level = 1 - (1 - LEVEL) / len(found)
    tried: dict[tuple[str, ...], dict[str, Gain]] = {}
    for name, made in found.items():
        for group in made.groups:
            tried.setdefault(item_set(group[0].first), {})[name] = gain(group, level)
    findings = [_best(gains, len(found), side, reference) for gains in tried.values()]
    lacks = [lack for made in found.values() for lack in made.lacks]
    enough = bool(findings) and all(finding.word == HELD for finding in findings)
    covered = {pair.where for made in found.values() for group in made.groups for pair in group}
    return Found(findings, [lack for lack in lacks if not (enough and lack.where in covered)])


def _best(gains: dict[str, Gain], of: int, side: int, reference: str) -> Finding:
    name = max(gains, key=lambda name: (side * gains[name].side, side * gains[name].mean))
    best = gains[name]
    told = f"{name}, best of {of}, less {reference} {best.told}"
    if best.side == side:
        return Finding(HELD, told, items_of(best.arms))
    against = len(gains) == of and all(gain(one.pairs).side == -side for one in gains.values())
    return Finding(NOT_HELD if against else UNRESOLVED, told, items_of(best.arms))
