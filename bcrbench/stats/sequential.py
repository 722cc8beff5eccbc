"""Stopping early honestly: a test martingale on the discordant pairs, valid however often one looks.

Bets on the sign of each discordant item with a Beta prior over the coin: after b and c of them, the wealth is the
marginal likelihood over that of a fair coin, E = 2^(b+c) B(a+b, a+c) / B(a, a). While neither condition is better, E is
a martingale of mean 1, so it ever reaches 1/alpha with probability at most alpha (Ville's inequality). Two-sided.

Sources: Ville (1939); Ramdas, Gruenwald, Vovk and Shafer, Statistical Science 38 (2023) 576-601.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log
from typing import NamedTuple

from bcrbench.stats.paired import ALPHA, Split

PRIOR = 1.0  # uniform over the coin


class Sequential(NamedTuple):
    """Where the bets end, and where they would have ended a run."""

    split: Split
    e: float  # wealth after the last item
    p: float  # anytime-valid: 1 over the most wealth ever held
    stopped_at: int | None  # items seen when the wealth first reached 1/alpha
    stopped_split: Split | None


def e_value(b: int, c: int, prior: float = PRIOR) -> float:
    """Wealth after a split, whatever the order it came in; infinite where a float cannot hold it."""
    logarithm = _log_wealth(b, c, prior)
    return exp(logarithm) if logarithm < 709 else float("inf")


def _log_wealth(b: int, c: int, prior: float) -> float:
    return (b + c) * log(2) + _log_beta(prior + b, prior + c) - _log_beta(prior, prior)


def _log_beta(one: float, two: float) -> float:
    return lgamma(one) + lgamma(two) - lgamma(one + two)


def follow(reference: Sequence[bool], row: Sequence[bool], alpha: float = ALPHA, prior: float = PRIOR) -> Sequential:
    """Bet item by item, in the order that the run had. Raises ValueError for unequal lengths.

    The prior must be fixed before the first item is seen.
    """
    b = c = 0
    most, stopped = 0.0, None
    for seen, (one, two) in enumerate(zip(reference, row, strict=True), 1):
        if bool(one) == bool(two):
            continue
        b, c = (b + 1, c) if one else (b, c + 1)
        most = max(most, _log_wealth(b, c, prior))
        if stopped is None and most >= -log(alpha):
            stopped = (seen, Split(b, c))
    at, there = stopped or (None, None)
    return Sequential(Split(b, c), e_value(b, c, prior), exp(-most), at, there)
