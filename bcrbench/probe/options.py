"""What the unit-of-choice probe measures, as a recipe or the command line has it; loads nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import msgspec

from bcrbench.errors import UserError, unknown


@dataclass(frozen=True)
class UnitOptions:
    """What to measure. Raises UserError for a value that cannot be.

    `segment_tokens` is the segment's length, `units` are rows that are chosen together (the whole segment is always
    measured too), `seeds` the coin's, `k` the decode queries, `anchors` the prompts that fill the pool beforehand.
    """

    segment_tokens: int = 2048
    prompts: int = 6
    units: tuple[int, ...] = (1, 16, 64, 256, 1024)
    rho: float = 0.2
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    k: int = 2
    anchors: int = 3
    gamma: float = 1.0

    def __post_init__(self) -> None:
        for name, low, high in (("segment_tokens", 1, 2**20), ("prompts", 1, 1000), ("k", 1, 8), ("anchors", 2, 20)):
            _between(name, getattr(self, name), low, high)
        _between("rho", self.rho, 0, 1)
        for name, low in (("units", 1), ("seeds", 0)):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise UserError(f"{name}={values}: expected one or more, each once")
            for value in values:
                _between(name, value, low, 2**31)

    @property
    def condition(self) -> str:
        """The string by which logs and file names know the probe: its length, and what is not the default."""
        shown = [s.name for s in fields(self) if s.name == "segment_tokens" or getattr(self, s.name) != s.default]
        return "units:" + ",".join(f"{name}={_flat(getattr(self, name))}" for name in shown)


def options_of(written: dict[str, Any]) -> UnitOptions:
    """The options of a probe as a recipe has them. Raises UserError for an unknown one and for a wrong value."""
    known = {spot.name for spot in fields(UnitOptions)}
    for name in written:
        if name not in known:
            raise unknown("option of probe units", str(name), known)
    try:
        return msgspec.convert(written, UnitOptions)
    except msgspec.ValidationError as error:
        raise UserError(f"probe units: {' '.join(str(error).split())}") from error


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise UserError(f"{name}={value}: expected {low} to {high}")


def _flat(value: Any) -> str:
    return "_".join(map(str, value)) if isinstance(value, tuple) else str(value)
