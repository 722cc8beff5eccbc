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


def median_of_ratios(upper: Sequence[float], lower: Sequence[float], level: float = LEVEL) -> Estimate:
    """Median of upper/lower over pairs, with the percentile bootstrap over pairs; BCa is unsound for few medians.

    Raises ValueError for no pairs, unequal lengths or a lower number that is not above 0.
    """
    import numpy as np

    pairs = list(zip(upper, lower, strict=True))
    if not pairs or any(below <= 0 for _, below in pairs):
        raise ValueError(f"{len(pairs)} pairs, expected at least one and a divisor above 0 in each")
    ratios = np.asarray([above / below for above, below in pairs])
    value = float(np.median(ratios))
    if len(pairs) == 1:
        return Estimate(value, None, None, "none", "one pair cannot be resampled")
    drawn = np.random.default_rng(SEED).integers(len(ratios), size=(RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(ratios[drawn], axis=1), [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value, float(low), float(high), "percentile")


def ratio_of_ratios(
    first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]], paired: bool, level: float = LEVEL
) -> Estimate:
    """One ratio of sums over another, each of two numbers an item, with the percentile bootstrap over items.

    `paired` draws the items of both together. Resamples without a divisor are left out. Raises ValueError where a sum
    is 0, and for unequal lengths of what is paired.
    """
    import numpy as np

    one, two = np.asarray(first, float).reshape(-1, 2), np.asarray(second, float).reshape(-1, 2)
    if paired and len(one) != len(two):
        raise ValueError(f"{len(one)} and {len(two)} items, expected as many of both")
    sums = (*one.sum(0), *two.sum(0))
    if min(sums, default=0) <= 0:
        raise ValueError(f"sums of {sums}, expected more than 0")
    value = float(sums[0] / sums[1] / (sums[2] / sums[3]))
    if min(len(one), len(two)) < 2:
        return Estimate(value, None, None, "none", "one item cannot be resampled")
    rng = np.random.default_rng(SEED)
    found = []
    for _ in range(RESAMPLES // 1000 + 1):
        drawn = [rng.integers(len(one), size=(1000, len(one)))]
        drawn.append(drawn[0] if paired else rng.integers(len(two), size=(1000, len(two))))
        above, below = (table[places].sum(1) for table, places in zip((one, two), drawn, strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            found.append(above[:, 0] / above[:, 1] / (below[:, 0] / below[:, 1]))
    ratios = np.concatenate(found)
    ratios = ratios[np.isfinite(ratios)]
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value, float(low), float(high), "percentile")
