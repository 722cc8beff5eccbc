"""The small world of the bundled benchmark: shops, goods, prices, and how an order and its answers are worded.

Prices are constants that no prompt holds: the bundled model knows them by heart (quotes benchmark, "Task"). No two
shops ask the same price for a good, so a row that was computed under another shop's prompt is always wrong.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Sequence
from typing import NamedTuple

SHOPS = ("north", "south", "east", "west")
NAMES = ("ann", "ben", "eve", "ian", "kim", "leo", "mia", "ned", "sam", "zoe")
NUMERALS = ("i", "ii", "iii", "iv")
MIN_GOODS, MAX_GOODS = 2, 4

PRICES: dict[str, dict[str, int]] = {
    "north": {"jar": 6, "cup": 1, "box": 9, "pot": 4, "fan": 2, "map": 8, "pen": 7, "hat": 3},
    "south": {"jar": 3, "cup": 7, "box": 2, "pot": 8, "fan": 9, "map": 1, "pen": 5, "hat": 6},
    "east": {"jar": 8, "cup": 4, "box": 5, "pot": 1, "fan": 7, "map": 6, "pen": 2, "hat": 9},
    "west": {"jar": 1, "cup": 9, "box": 6, "pot": 7, "fan": 4, "map": 3, "pen": 8, "hat": 2},
}
GOODS = tuple(PRICES["north"])


class Order(NamedTuple):
    """Who orders which goods; `goods` are distinct and their order matters."""

    name: str
    goods: tuple[str, ...]

    @property
    def text(self) -> str:
        """The question, one vocabulary word a token."""
        listed = " ".join(f"{numeral} a {good}" for numeral, good in zip(NUMERALS, self.goods, strict=False))
        return f"order for {self.name} : {listed} please ."

    def total(self, shop: str) -> int:
        """What the order costs at a shop."""
        return sum(PRICES[shop][good] for good in self.goods)


def sequences(count: int) -> list[tuple[str, ...]]:
    """All ordered choices of `count` distinct goods, in a fixed order."""
    return list(itertools.permutations(GOODS, count))


def reserved(goods: Sequence[str]) -> bool:
    """Whether a sequence of goods is kept for evaluation: about half are, and training never sees those.

    A hash decides, so every generated item set, whatever its seed, is new to the bundled model.
    """
    return hashlib.sha256(" ".join(goods).encode()).digest()[0] % 2 == 0


def random_order(rng: random.Random, count: int) -> Order:
    """An order of `count` goods, uniform over names and sequences."""
    return Order(rng.choice(NAMES), tuple(rng.sample(GOODS, count)))


def spaced(number: int) -> str:
    """A number with its digits as separate words: 18 -> "1 8"."""
    return " ".join(str(number))


def clerk_answer(prices: Sequence[int]) -> str:
    """Running totals under the order's numerals, then the sum: "i 6 ; ii 1 0 ; #### 1 0"."""
    totals = itertools.accumulate(prices)
    steps = " ; ".join(f"{numeral} {spaced(total)}" for numeral, total in zip(NUMERALS, totals, strict=False))
    return f"{steps} ; #### {spaced(sum(prices))}"


def buyer_answer(totals: Sequence[int]) -> str:
    """The quoted totals in the order heard, then the lowest: "4 , 1 8 #### 4"."""
    return f"{' , '.join(spaced(total) for total in totals)} #### {spaced(min(totals))}"
