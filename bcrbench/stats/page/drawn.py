"""Intervals as small inline drawings, in the units of their table's column."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor
from typing import NamedTuple

STEP = 10  # points that a scale's ends are rounded to


class Scale(NamedTuple):
    """The ends of a column's drawings, in points."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Where a value lies, 0 to 100."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)


class Drawn(NamedTuple):
    """An interval on a scale, its estimate, and a line to compare with, as places from 0 to 100."""

    low: float
    high: float
    at: float
    line: float | None


def scale(values: Sequence[float]) -> Scale:
    """A scale with round ends around all values (points)."""
    low, high = STEP * floor(min(values) / STEP), STEP * ceil(max(values) / STEP)
    return Scale(low, high if high > low else low + STEP)


def drawn(on: Scale, low: float, high: float, at: float, line: float | None) -> Drawn:
    """An interval's drawing; all in points."""
    return Drawn(on.place(low), on.place(high), on.place(at), None if line is None else on.place(line))
