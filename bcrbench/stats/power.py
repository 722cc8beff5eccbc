"""What a planned number of items can show: power of the exact McNemar test, smallest effect, smallest n.

Exact: the number of discordant items is binomial, and given it the split is; both are summed, nothing is simulated.
"""

from __future__ import annotations

from bcrbench.stats.paired import ALPHA

TARGET = 0.8
_MOST_ITEMS = 1_000_000


def power(n: int, only_first: float, only_second: float, alpha: float = ALPHA) -> float:
    """Chance that n items give exact p < alpha, when so large a share of items is solved by only the one or the other.

    Raises ValueError unless n > 0 and the two rates are shares of the items.
    """
    discordant = only_first + only_second
    if n <= 0 or min(only_first, only_second) < 0 or discordant > 1:
        raise ValueError(f"n={n}, rates {only_first} and {only_second}; expected n > 0 and rates of at most 1 together")
    if discordant * n < 1e-12:
        return 0.0
    import numpy as np
    from scipy.stats import binom

    # Totals that hardly ever occur are left out: they hold less than 1e-12 of the probability.
    totals = np.arange(*(int(binom.ppf(tail, n, discordant)) for tail in (1e-12, 1 - 1e-12)))
    totals = np.append(totals, totals[-1] + 1 if len(totals) else int(binom.ppf(0.5, n, discordant)))
    edges = binom.ppf(alpha / 2, totals, 0.5) - 1  # the most items of the rarer kind that are still significant
    share = only_first / discordant
    significant = binom.cdf(edges, totals, share) + binom.sf(totals - edges - 1, totals, share)
    return float(np.sum(binom.pmf(totals, n, discordant) * significant))


def smallest_n(only_first: float, only_second: float, target: float = TARGET, alpha: float = ALPHA) -> int | None:
    """The fewest items whose power reaches the target; None when a million do not."""
    low, high = 0, 1
    while power(high, only_first, only_second, alpha) < target:
        if high >= _MOST_ITEMS:
            return None
        low, high = high, min(2 * high, _MOST_ITEMS)
    while high - low > 1:
        middle = (low + high) // 2
        enough = power(middle, only_first, only_second, alpha) >= target
        low, high = (low, middle) if enough else (middle, high)
    return high


def detectable(n: int, discordant: float, target: float = TARGET, alpha: float = ALPHA) -> float | None:
    """The smallest difference of accuracies found with the target power, when this share of n items is discordant.

    A fraction; None when even a one-sided split of them is not found so often. Raises ValueError as `power` does.
    """
    if power(n, discordant, 0.0, alpha) < target:
        return None
    from scipy.optimize import brentq

    def short(effect: float) -> float:
        return power(n, (discordant + effect) / 2, (discordant - effect) / 2, alpha) - target

    return float(brentq(short, 0.0, discordant, xtol=1e-9))
