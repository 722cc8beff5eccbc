"""Runs that differ in their seed alone: mean, t-interval and spread (Table 11, App. H)."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from bcrbench.stats.intervals import LEVEL


class Seeds(NamedTuple):
    """Summary over seeds, in the values' unit; None where one seed does not tell."""

    seeds: int
    mean: float
    sd: float | None  # of a sample: over seeds - 1
    half_width: float | None
    low: float | None
    high: float | None
    spread: float | None  # the highest less the lowest


def over_seeds(values: Sequence[float], level: float = LEVEL) -> Seeds:
    """Mean of one value a seed, with Student's interval on seeds - 1 degrees of freedom. ValueError for no seed."""
    if not values:
        raise ValueError("no seed, expected at least one")
    mean = fmean(values)
    if len(values) == 1:
        return Seeds(1, mean, None, None, None, None, None)
    from scipy.stats import t

    sd = stdev(values)
    half = float(t.ppf((1 + level) / 2, len(values) - 1)) * sd / sqrt(len(values))
    return Seeds(len(values), mean, sd, half, mean - half, mean + half, max(values) - min(values))
