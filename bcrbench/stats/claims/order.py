"""`order`: conditions by accuracy, the best first; each is paired with the next."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import msgspec

from bcrbench.stats.cells import Cell
from bcrbench.stats.claims.kind import HELD, NOT_HELD, UNRESOLVED, Finding, Found, Kind, Place
from bcrbench.stats.claims.pairs import gain, items_of, pairs
from bcrbench.stats.claims.places import spots


class Order(Place, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The conditions, the best first."""

    conditions: Annotated[list[str], msgspec.Meta(min_length=2)]


def decide(cells: Sequence[Cell], asked: Order) -> Found:
    """Held where every neighbour is resolved in this order; one resolved the other way round refutes it."""
    places = spots(cells, asked, asked.conditions)
    made = Found()
    for better, worse in pairwise(asked.conditions):
        found = pairs(places, asked, better, worse)
        made.lacks += found.lacks
        for group in found.groups:
            one = gain(group)
            word = {1: HELD, 0: UNRESOLVED, -1: NOT_HELD}[one.side]
            made.findings.append(Finding(word, f"{better} over {worse} {one.told}", items_of(one.arms)))
    return made


KIND = Kind(Order, decide)
