"""The order of a run's items: the task's own, or a permutation of it by seed.

What a pool holds depends on what came before, so one order is one draw; several tell the draw from the method.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from bcrbench.errors import UserError, told

Entry = TypeVar("Entry")
TASK = "task"


def order_of(text: str) -> Callable[[Sequence[Entry]], list[Entry]]:
    """What puts items into the order named `task` or `shuffle:SEED`. Raises UserError for any other name.

    Items are sorted by draws of Python's Mersenne Twister, seeded with the text `bcrbench order SEED`: that stream is
    the same in every Python, which `random.shuffle` does not promise.
    """
    if text == TASK:
        return list
    found = re.fullmatch(r"shuffle:([0-9]{1,9})", text)
    if found is None:
        raise UserError(f"order={told(text)}: expected task, or shuffle:SEED with a whole number, such as shuffle:1")
    return lambda items: _shuffled(items, int(found[1]))


def _shuffled(items: Sequence[Entry], seed: int) -> list[Entry]:
    dice = Random(f"bcrbench order {seed}")
    places = [(dice.random(), number) for number in range(len(items))]
    return [items[number] for _, number in sorted(places)]
