"""Paired numbers (times, errors, per-item sums): t, Wilcoxon and sign test of their differences, two-sided.

The Wilcoxon variants disagree where differences tie or vanish, so the result carries the name of the one used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from bcrbench.stats.paired import mcnemar

WilcoxonMethod = Literal["asymptotic", "exact"]


class PairedTest(NamedTuple):
    """A test's name, statistic and two-sided p; None where it is undefined."""

    method: str
    statistic: float | None
    p: float | None


def differences(one: Sequence[float], two: Sequence[float]) -> list[float]:
    """one - two, pair by pair. Raises ValueError for unequal lengths."""
    return [a - b for a, b in zip(one, two, strict=True)]


def paired_t(values: Sequence[float]) -> PairedTest:
    """Student's t of the mean difference; undefined for fewer than two or for equal differences."""
    if len(values) < 2 or len(set(values)) == 1:
        return PairedTest("paired t", None, None)
    from scipy.stats import ttest_1samp

    found = ttest_1samp(values, 0.0)
    return PairedTest("paired t", float(found.statistic), float(found.pvalue))


def wilcoxon(values: Sequence[float], method: WilcoxonMethod = "asymptotic") -> PairedTest:
    """Wilcoxon's signed-rank test: zero differences dropped, tied ones share a mean rank; statistic min(W+, W-).

    "asymptotic" corrects the variance for ties and has no continuity correction. "exact" enumerates the signs of the
    ranks as they are, ties included, which scipy's method of that name does not. All differences zero: p is 1.
    """
    kept = [value for value in values if value]
    name = f"Wilcoxon signed-rank, {method}, zeros dropped"
    if not kept:
        return PairedTest(name, 0.0, 1.0)
    ranks = _ranks([abs(value) for value in kept])
    plus = sum(rank for rank, value in zip(ranks, kept, strict=True) if value > 0)
    statistic = min(plus, sum(ranks) - plus)
    if method == "exact":
        # Twice a mean rank is whole, so that the same convolution serves.
        signed = [round(2 * rank) * (1 if value > 0 else -1) for rank, value in zip(ranks, kept, strict=True)]
        return PairedTest(name, statistic, sign_flip(signed))
    from scipy.stats import wilcoxon as signed_rank

    # The stubs lack the method's present name.
    found: Any = signed_rank(kept, zero_method="wilcox", correction=False, method="asymptotic")  # type: ignore[call-overload]
    return PairedTest(name, statistic, float(found.pvalue))


def _ranks(sizes: Sequence[float]) -> list[float]:
    from scipy.stats import rankdata

    return [float(rank) for rank in rankdata(sizes, method="average")]


def sign_test(values: Sequence[float]) -> PairedTest:
    """How many differences are positive against a fair coin; zero differences say nothing and are left out."""
    positive = sum(value > 0 for value in values)
    return PairedTest("sign test", float(positive), mcnemar(positive, sum(value < 0 for value in values)))


def sign_flip(nets: Sequence[int]) -> float:
    """Exact two-sided p of the sum of whole numbers when each one's sign is a fair coin's.

    Counts, by convolution over whole numbers, the 2^m sign assignments whose sum is at least as far from 0; no sampling
    and no asymptotics. Equals the exact McNemar test when no number exceeds 1 in size. Raises ValueError for fractions.
    """
    if any(net != int(net) for net in nets):
        raise ValueError("a net that is not a whole number, expected sums of solved flags")
    sizes = [abs(int(net)) for net in nets if net]
    ways = [1]  # ways[k]: assignments whose positive part is k
    for size in sizes:
        gap = [0] * size
        ways = [without + with_it for without, with_it in zip(ways + gap, gap + ways, strict=True)]
    total, observed = sum(sizes), abs(sum(int(net) for net in nets))
    as_far = sum(count for positive, count in enumerate(ways) if abs(2 * positive - total) >= observed)
    return as_far / 2 ** len(sizes)
