"""Intervals for an accuracy and for the difference of two paired ones.

The first is scipy's; the second is written out, because no library has it for paired items.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

LEVEL = 0.95


class Interval(NamedTuple):
    """A lower and an upper bound."""

    low: float
    high: float


def wilson(k: int, n: int, level: float = LEVEL) -> Interval:
    """Wilson's score interval, without continuity correction, for k of n. Raises ValueError unless 0 <= k <= n > 0."""
    if not 0 <= k <= n or n == 0:
        raise ValueError(f"{k} of {n}, expected 0 <= k <= n and n > 0")
    from scipy.stats import binomtest  # half a second to import, so only when an interval is wanted

    bounds = binomtest(k, n).proportion_ci(level, method="wilson")
    # At the ends the bound is the end itself; rounding must not put it a hair outside the estimate.
    return Interval(0.0 if k == 0 else float(bounds.low), 1.0 if k == n else float(bounds.high))


def newcombe(both: int, first: int, second: int, neither: int, level: float = LEVEL) -> Interval:
    """Interval for the first accuracy less the second, on the same items: Newcombe's hybrid score, method 10.

    The arguments count items that both solve, only the first, only the second, and neither; ValueError when all are 0.
    Source: Newcombe, Statistics in Medicine 17 (1998) 2635-2650.
    """
    n = both + first + second + neither
    one, two = both + first, both + second
    low1, high1 = wilson(one, n, level)
    low2, high2 = wilson(two, n, level)
    p1, p2 = one / n, two / n
    phi = _phi(both, first, second, neither)
    low = _distance(p1 - low1, high2 - p2, phi)
    high = _distance(high1 - p1, p2 - low2, phi)
    return Interval(p1 - p2 - low, p1 - p2 + high)


def _distance(one: float, two: float, phi: float) -> float:
    return sqrt(max(0.0, one * one - 2 * phi * one * two + two * two))


def _phi(both: int, first: int, second: int, neither: int) -> float:
    """Correlation of the two, with method 10's continuity correction when it is positive."""
    margins = (both + first) * (second + neither) * (both + second) * (first + neither)
    if margins == 0:
        return 0.0
    product = float(both * neither - first * second)
    if product > 0:
        product = max(product - (both + first + second + neither) / 2, 0.0)
    return product / sqrt(margins)
