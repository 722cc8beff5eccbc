"""Two runs of the same items, compared item by item."""

from __future__ import annotations

from bcrbench.runs.schema import ItemRecord
from bcrbench.verify.bench import Trial

_OF_CALL = ("served", "prompt_hash", "ids", "text")
_OF_ITEM = ("text", "prediction", "pool_hash", "rng")


def unlike(one: Trial, other: Trial) -> dict[str, str]:
    """The items that differ: their id and the first thing in which they do."""
    found = {item.id: _first(item, twin) for item, twin in zip(one.items, other.items, strict=True)}
    return {item: where for item, where in found.items() if where}


def told(differ: dict[str, str]) -> str:
    """The first differing item in words, or that there is none."""
    return next((f"item {item} differs first in {where}" for item, where in differ.items()), "no item differs")


def _first(item: ItemRecord, twin: ItemRecord) -> str:
    for call, other in zip(item.calls, twin.calls, strict=True):
        for name in _OF_CALL:
            if getattr(call, name) != getattr(other, name):
                return f"{name} of agent {call.agent}"
    return next((name for name in _OF_ITEM if getattr(item, name) != getattr(twin, name)), "")
