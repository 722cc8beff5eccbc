"""Intervals for an accuracy and for the difference of two paired ones.

The first is scipy's; those of the difference are written out, because no library has them for paired items.
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


def paired_error(first: int, second: int, n: int, ddof: int = 0) -> float:
    """Standard error of the difference of two accuracies on the same n items, as a fraction.

    `first` and `second` count items that only the one or only the other solves. ddof=0 is Wald's, ddof=1 Miller's (the
    sample variance of the per-item differences). Raises ValueError unless the counts fit into n > ddof items.
    Source: Miller, arXiv 2411.00640, section 4.
    """
    if min(first, second) < 0 or first + second > n or n <= ddof:
        raise ValueError(f"{first} and {second} of {n}, expected counts of distinct items and n > {ddof}")
    squares = first + second - (first - second) ** 2 / n
    return sqrt(squares / (n - ddof) / n)


def wald(first: int, second: int, n: int, level: float = LEVEL, ddof: int = 0) -> Interval:
    """Interval for the first accuracy less the second by `paired_error` and the normal quantile.

    Too narrow with few discordant items, and may leave [-1, 1]: printed beside `newcombe`, not instead of it.
    """
    from scipy.stats import norm

    reach = float(norm.ppf((1 + level) / 2)) * paired_error(first, second, n, ddof)
    centre = (first - second) / n
    return Interval(centre - reach, centre + reach)
