"""Recipes over counts of items and calls: shares, intervals, splits, tests, seeds, Eq. 3.

Each takes the inputs of a row by name and returns the values that the paper prints, in the paper's unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from math import prod, sqrt
from statistics import fmean

from bcrbench.stats import intervals
from bcrbench.stats.conformance.printed import OneOf, Value
from bcrbench.stats.families import Family
from bcrbench.stats.paired import ALPHA, Split, attained_size, mcnemar, mcnemar_midp, pool
from bcrbench.stats.reuse_line import ReuseLine, line_through
from bcrbench.stats.seeds import over_seeds

Counts = int | Sequence[int]
Splits = Sequence[Sequence[int]]


def _sum(counts: Counts) -> int:
    return counts if isinstance(counts, int) else sum(counts)


def percent(k: Counts, n: int) -> list[Value]:
    """k of n in percent; of several k, any."""
    return [100 * k / n] if isinstance(k, int) else [OneOf(tuple(100 * one / n for one in k))]


def percents(ks: Sequence[int], n: int) -> list[Value]:
    """Each k of n in percent."""
    return [100 * k / n for k in ks]


def rate(k: Counts, of: int) -> list[Value]:
    """k of the calls as a fraction; of several k, any."""
    return [k / of] if isinstance(k, int) else [OneOf(tuple(one / of for one in k))]


def wilson(k: int, n: int) -> list[Value]:
    """Wilson's interval in percent."""
    return [100 * bound for bound in intervals.wilson(k, n)]


def discordant(b: int, c: int) -> list[Value]:
    """Discordant items."""
    return [Split(b, c).discordant]


def points(first: Counts, second: Counts, n: int) -> list[Value]:
    """First less second in points of n; several counts are summed."""
    return [100 * (_sum(first) - _sum(second)) / n]


def points_extremes(first: Sequence[int], second: Sequence[int], n: int) -> list[Value]:
    """The smallest and largest difference, cell by cell, in points of n."""
    found = [100 * (one - two) / n for one, two in zip(first, second, strict=True)]
    return [min(found), max(found)]


def net(first: Counts, second: Counts, b: int | None = None, c: int | None = None) -> list[Value]:
    """First less second in items, and b - c of their split where it is printed: the two must be one number."""
    return [_sum(first) - _sum(second), *([] if b is None or c is None else [b - c])]


def exact_p(b: int, c: int) -> list[Value]:
    """The exact McNemar test."""
    return [mcnemar(b, c)]


def exact_p_of_net(first: int, second: int, splits: Splits) -> list[Value]:
    """Of splits that the paper does not print, any whose net is that of the two accuracies."""
    return [OneOf(tuple(mcnemar(b, c) for b, c in splits if b - c == first - second))]


def exact_ps(splits: Splits) -> list[Value]:
    """The exact McNemar test of each split."""
    return [mcnemar(b, c) for b, c in splits]


def exact_p_extremes(splits: Splits) -> list[Value]:
    """The lowest and the highest p of the splits."""
    ps = [mcnemar(b, c) for b, c in splits]
    return [min(ps), max(ps)]


def one_sided_p(b: int, c: int) -> list[Value]:
    """Half the exact p."""
    return [mcnemar(b, c) / 2]


def significant(splits: Splits) -> list[Value]:
    """How many splits have p below 0.05."""
    return [sum(mcnemar(b, c) < ALPHA for b, c in splits)]


def pooled(splits: Splits) -> list[Value]:
    """The splits' sum."""
    return list(pool(Split(b, c) for b, c in splits))


def nominal_errors(splits: Splits, alpha: float) -> list[Value]:
    """How many of the tests err by the nominal size, and by the size that the exact test attains."""
    return [_family(splits).nominal_errors(alpha), sum(attained_size(b + c, alpha) for b, c in splits)]


def bonferroni(splits: Splits, b: int, c: int) -> list[Value]:
    """The split's p within the family of all the splits."""
    return [_family(splits).bonferroni()[f"{[list(one) for one in splits].index([b, c])}"]]


def _family(splits: Splits) -> Family:
    return Family("one grid", {f"{k}": mcnemar(b, c) for k, (b, c) in enumerate(splits)})


def no_vote_prints(b: int, c: int, p: str) -> list[Value]:
    """Whether no split of one vote an item, however it is counted, prints this p: exact, mid-p or plain chi-square."""
    from scipy.stats import chi2

    digits = len(p.partition(".")[2])
    # Every one of these tests is the same for a split and its reverse.
    votes = {(max(pair), min(pair)) for pair in product(range(b + 1), range(c + 1)) if any(pair)}
    ps = {test(one, two) for one, two in votes for test in (mcnemar, mcnemar_midp)}
    ps |= {float(chi2.sf((one - two) ** 2 / (one + two), 1)) for one, two in votes}
    return [p not in {f"{value:.{digits}f}" for value in ps}]


def total(parts: Sequence[int]) -> list[Value]:
    """The parts' sum."""
    return [sum(parts)]


def times(factors: Sequence[int]) -> list[Value]:
    """The factors' product."""
    return [prod(factors)]


def mean(values: Sequence[float]) -> list[Value]:
    """The mean."""
    return [fmean(values)]


def mean_percent(ks: Sequence[int], n: int) -> list[Value]:
    """Mean over runs of n items, in percent."""
    return [over_seeds([100 * k / n for k in ks]).mean]


def mean_rate(ks: Sequence[int], of: int) -> list[Value]:
    """Mean over blocks of so many calls, as a fraction."""
    return [over_seeds([k / of for k in ks]).mean]


def half_width(ks: Sequence[int], n: int) -> list[Value]:
    """Half of the t-interval over seeds, in points."""
    return [over_seeds([100 * k / n for k in ks]).half_width or 0.0]


def spread(ks: Sequence[int], n: int) -> list[Value]:
    """Highest less lowest seed, in points."""
    return [over_seeds([100 * k / n for k in ks]).spread or 0.0]


def most_equal(ks: Sequence[int]) -> list[Value]:
    """How many of the counts are the same."""
    return [max(Counter(ks).values())]


def complement(percent: float) -> list[Value]:
    """What is left of a percentage, as a fraction."""
    return [1 - percent / 100]


def as_percent(fraction: float) -> list[Value]:
    """A fraction in percent."""
    return [100 * fraction]


def feasible(whole: int, known: Sequence[int], block: int, half: int) -> list[Value]:
    """Whether what the known blocks leave of a sum can lie in the half of one more block, and the rest in the other."""
    rest = whole - sum(known)
    return [max(0, block - half) <= rest <= min(block, half)]


def _line(dense: int, kvcomm: int, n: int, kvcomm_reuse: float) -> ReuseLine:
    return line_through(dense / n, kvcomm / n, kvcomm_reuse)


def line_slope(dense: int, kvcomm: int, n: int, kvcomm_reuse: float) -> list[Value]:
    """Eq. 3's slope, in points."""
    return [100 * _line(dense, kvcomm, n, kvcomm_reuse).slope]


def line_intercept(dense: int, kvcomm: int, n: int, kvcomm_reuse: float) -> list[Value]:
    """Eq. 3's intercept, in percent."""
    return [100 * _line(dense, kvcomm, n, kvcomm_reuse).intercept]


def line_predicted(dense: int, kvcomm: int, n: int, kvcomm_reuse: float, reuse: float) -> list[Value]:
    """What Eq. 3 predicts from its unrounded endpoints, in percent."""
    return [100 * _line(dense, kvcomm, n, kvcomm_reuse).predicted(reuse)]


def line_residual(dense: int, kvcomm: int, n: int, kvcomm_reuse: float, k: int, reuse: float) -> list[Value]:
    """Points earned beyond the unrounded line."""
    return [100 * _line(dense, kvcomm, n, kvcomm_reuse).residual(k / n, reuse)]


def residual_in_errors(dense: int, kvcomm: int, n: int, kvcomm_reuse: float, k: int, reuse: float) -> list[Value]:
    """A residual in standard errors of one accuracy."""
    residual = _line(dense, kvcomm, n, kvcomm_reuse).residual(k / n, reuse)
    return [residual / sqrt(k / n * (1 - k / n) / n)]


def printed_line(intercept: float, slope: float, reuse: float) -> list[Value]:
    """Eq. 3 with coefficients as printed, in percent."""
    return [ReuseLine(intercept, slope).predicted(reuse)]


def beyond_printed_line(intercept: float, slope: float, reuse: float, k: int, n: int) -> list[Value]:
    """Points beyond that."""
    return [ReuseLine(intercept, slope).residual(100 * k / n, reuse)]
