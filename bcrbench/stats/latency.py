"""Summaries of times: medians first, both ways to average a speed-up (Table 10), and tests of paired times.

Intervals of the two speed-ups are in `bootstrap`.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median, quantiles
from typing import NamedTuple

from bcrbench.stats.differences import PairedTest, differences, paired_t, sign_test, wilcoxon


class Summary(NamedTuple):
    """Median, quartiles and mean of some times, in their unit; all None when there are none."""

    median: float | None
    q1: float | None
    q3: float | None
    mean: float | None


class Speedup(NamedTuple):
    """How many times faster a row is than its reference; both None when nothing pairs up.

    The two differ when calls are of unequal length: the mean of ratios weighs every call alike, the ratio of means
    weighs it by its time.
    """

    mean_of_ratios: float | None
    ratio_of_means: float | None


def summary(times: Sequence[float]) -> Summary:
    """Summarise times; quartiles interpolate linearly between order statistics."""
    if not times:
        return Summary(None, None, None, None)
    q1, middle, q3 = quantiles(times, n=4, method="inclusive") if len(times) > 1 else [times[0]] * 3
    return Summary(middle, q1, q3, fmean(times))


def median_of(times: Sequence[float]) -> float | None:
    """The median; None of nothing."""
    return median(times) if times else None


def speedup(reference: Sequence[float], row: Sequence[float]) -> Speedup:
    """Speed-up of paired times. Raises ValueError for unequal lengths; a pair with a time of 0 is left out."""
    pairs = [(before, after) for before, after in zip(reference, row, strict=True) if before > 0 and after > 0]
    if not pairs:
        return Speedup(None, None)
    total_before, total_after = map(sum, zip(*pairs))
    return Speedup(fmean(before / after for before, after in pairs), total_before / total_after)


def ratio_range(before: float, after: float, variation: float) -> tuple[float, float]:
    """Bounds of a mean of per-call ratios whose ratio of means is before/after.

    Mean(before) is mean(ratio) mean(after) plus their covariance, which is at most the product of their standard
    deviations; `variation` is the largest coefficient of variation of the ratios and of `after`. Raises ValueError
    unless it is within [0, 1).
    """
    if not 0 <= variation < 1:
        raise ValueError(f"a variation of {variation}, expected 0 <= variation < 1")
    ratio = before / after
    return ratio / (1 + variation**2), ratio / (1 - variation**2)


def time_tests(reference: Sequence[float], row: Sequence[float]) -> list[PairedTest]:
    """Paired t, Wilcoxon and sign test of reference - row, one time an item; positive where the row is faster.

    Give items' times, not calls': an item's calls are not independent. Raises ValueError for unequal lengths.
    """
    saved = differences(reference, row)
    return [paired_t(saved), wilcoxon(saved, "asymptotic"), sign_test(saved)]
