"""A run's condition by name and parameters, read from its log: statistics know nothing of the policies themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from bcrbench.runs.schema import RunRecord

# Canonical strings leave defaults out; `effective` has them, but older and made-up logs may not.
DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {"rho": 0.2, "select": "draft", "op": "recompute", "over": "all", "seed": 0, "tau": 0.25, "cap": 64, "B": 64,
     "tokens": "whole", "prompts": "matched", "frame": "released", "base": "header"}
)  # fmt: skip
_OWN = MappingProxyType({"cacheblend": {"select": "cacheblend", "match": "cost"}})


@dataclass(frozen=True)
class Setting:
    """A condition's name and parameters; numbers are numbers."""

    name: str
    values: Mapping[str, Any]

    def get(self, key: str) -> Any:
        """A parameter, or its default; None for one that nobody knows."""
        return self.values.get(key, _OWN.get(self.name, {}).get(key, DEFAULTS.get(key)))

    def has(self, wanted: Mapping[str, Any]) -> bool:
        """Whether every wanted parameter has its value; a wanted text that ends in `:` is the beginning of one."""
        return all(_equal(self.get(key), value) for key, value in wanted.items())


def _equal(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, str) and wanted.endswith(":"):
        return str(found).startswith(wanted)
    if isinstance(wanted, float) and isinstance(found, int | float):
        return abs(found - wanted) < 1e-9
    return bool(found == wanted)


def setting_of(run: RunRecord) -> Setting:
    """The condition that ran: what its string says, and what the running policy reported beside it."""
    named = written(run.condition)
    return Setting(named.name, {**run.effective, **named.values})


def written(condition: str) -> Setting:
    """What a condition string says."""
    name, _, tail = condition.partition(":")
    parts = [part.partition("=") for part in re.split(r",(?=\s*\w+=)", tail) if "=" in part]
    return Setting(name, {key.strip(): _value(value.strip()) for key, _, value in parts})


def usual(name: str) -> Mapping[str, Any]:
    """The parameters of a policy that have a default known here, at that default."""
    return {**DEFAULTS, **_OWN.get(name, {})}


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
