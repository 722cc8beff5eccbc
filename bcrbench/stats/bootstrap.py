"""Speed-ups with an interval: means of ratios and ratios of means, resampled by item (Table 10).

An item's calls share its length and the state of the machine, so items are drawn, each with all its calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from bcrbench.stats.intervals import LEVEL

RESAMPLES = 9999
SEED = 20240  # fixed, so that a report is the same each time


class Estimate(NamedTuple):
    """A ratio and its interval; bounds are None where there is none, and `reason` says why it is not BCa's."""

    value: float
    low: float | None
    high: float | None
    method: Literal["BCa", "percentile", "none"]
    reason: str | None = None


def mean_of_ratios(
    before: Sequence[Sequence[float]], after: Sequence[Sequence[float]], level: float = LEVEL
) -> Estimate:
    """Mean over calls of before/after, calls given by item. Raises ValueError as `ratio_of_sums` does."""
    ratios = [[one / two for one, two in _pairs(first, second)] for first, second in zip(before, after, strict=True)]
    kept = [item for item in ratios if item]
    return ratio_of_sums([sum(item) for item in kept], [float(len(item)) for item in kept], level)


def ratio_of_means(
    before: Sequence[Sequence[float]], after: Sequence[Sequence[float]], level: float = LEVEL
) -> Estimate:
    """Mean of before over mean of after, calls given by item. Raises ValueError as `ratio_of_sums` does."""
    items = [_pairs(first, second) for first, second in zip(before, after, strict=True)]
    kept = [item for item in items if item]
    return ratio_of_sums(
        [sum(one for one, _ in item) for item in kept], [sum(two for _, two in item) for item in kept], level
    )


def _pairs(before: Sequence[float], after: Sequence[float]) -> list[tuple[float, float]]:
    """Pairs of times, less those with a time of 0, which no clock measured."""
    return [(one, two) for one, two in zip(before, after, strict=True) if one > 0 and two > 0]


def ratio_of_sums(upper: Sequence[float], lower: Sequence[float], level: float = LEVEL) -> Estimate:
    """Sum of one number an item over the sum of another, with the BCa bootstrap over items; percentile where BCa fails.

    With a lower number of 1 an item it is the mean of the upper ones. Raises ValueError for no items, unequal lengths
    or a lower number that is not above 0.
    """
    pairs = list(zip(upper, lower, strict=True))
    if not pairs or any(below <= 0 for _, below in pairs):
        raise ValueError(f"{len(pairs)} items, expected at least one and a divisor above 0 in each")
    value = sum(upper) / sum(lower)
    if len(pairs) == 1:
        return Estimate(value, None, None, "none", "one item cannot be resampled")
    if len({above / below for above, below in pairs}) == 1:
        return Estimate(value, value, value, "percentile", "every item has the same ratio: BCa is undefined")
    found = _resampled(upper, lower, level, "BCa")
    if found[0] == found[0]:
        return Estimate(value, *found, "BCa")
    return Estimate(value, *_resampled(upper, lower, level, "percentile"), "percentile", "BCa is undefined here")


def _resampled(
    upper: Sequence[float], lower: Sequence[float], level: float, method: Literal["BCa", "percentile"]
) -> tuple[float, float]:
    import warnings

    import numpy as np
    from scipy.stats import bootstrap

    def ratio(above: Any, below: Any, axis: int = -1) -> Any:
        return above.sum(axis=axis) / below.sum(axis=axis)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a degenerate distribution: the bounds are nan, which is told to the reader
        # `paired` draws the two numbers of an item together.
        found = bootstrap(
            (np.asarray(upper, float), np.asarray(lower, float)),
            ratio,
            paired=True,
            vectorized=True,
            n_resamples=RESAMPLES,
            batch=1000,
            confidence_level=level,
            method=method,
            rng=np.random.default_rng(SEED),
        )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)
