"""Recipes over times, errors and rows: speed-ups, overheads, the unit of choice, rows recomputed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bcrbench.stats.conformance.printed import Range, Value
from bcrbench.stats.latency import ratio_range, speedup

VARIATION = 0.3  # of a call's time and of a call's ratio about their means: more than any of the printed ones needs


def _ratio(before: float, after: float) -> float:
    found = speedup([before], [after]).ratio_of_means
    if found is None:
        raise ValueError(f"times {before} and {after}, expected more than 0")
    return found


def ratio_of_means(before: float, after: float) -> list[Value]:
    """Speed-up as the ratio of two printed means."""
    return [_ratio(before, after)]


def mean_of_ratios(before: float, after: float | Sequence[float], step: float) -> list[Value]:
    """What a mean of per-call ratios can be when the two mean times are known to a printed step."""
    afters = [after] if isinstance(after, (int, float)) else after
    half = step / 2
    found = []
    for one in afters:
        low, _ = ratio_range(before - half, one + half, VARIATION)
        _, high = ratio_range(before + half, one - half, VARIATION)
        found.append(Range(low, high))
    return list(found)


def speedup_extremes(before: float, afters: Sequence[float]) -> list[Value]:
    """The lowest and highest speed-up."""
    ratios = [_ratio(before, after) for after in afters]
    return [min(ratios), max(ratios)]


def saved(before: float, after: float) -> list[Value]:
    """Time saved, and as a share."""
    return [before - after, (before - after) / before]


def saved_percent(before: float, after: float) -> list[Value]:
    """Time saved, in percent."""
    return [100 * (before - after) / before]


def premium(first: float, second: float) -> list[Value]:
    """First less second."""
    return [first - second]


def overhead_per_call(before: float, afters: Sequence[float], calls: int) -> list[Value]:
    """The lowest and highest time added, by call."""
    added = [(after - before) / calls for after in afters]
    return [min(added), max(added)]


def linear(x: Sequence[float], y: Sequence[float]) -> list[Value]:
    """Whether a straight line explains 99 % of the variance."""
    from scipy.stats import linregress

    return [bool(linregress(x, y).rvalue ** 2 > 0.99)]


def _changes(reference: Sequence[float], row: Sequence[float]) -> list[float]:
    return [100 * abs(two - one) / one for one, two in zip(reference, row, strict=True)]


def change_extremes(reference: Sequence[float], row: Sequence[float]) -> list[Value]:
    """The smallest and largest change, in percent."""
    found = _changes(reference, row)
    return [min(found), max(found)]


def largest_changes(reference: Sequence[float], rows: Mapping[str, Sequence[float]]) -> list[Value]:
    """Each row's largest change, in percent."""
    return [max(_changes(reference, row)) for row in rows.values()]


def ends(values: Sequence[float]) -> list[Value]:
    """The lowest and the highest value."""
    return [min(values), max(values)]


def listed(values: Sequence[float]) -> list[Value]:
    """The values themselves: one printed place must repeat another."""
    return list(values)


def gap(random: float, attention: float) -> list[Value]:
    """What choosing by attention removes beyond chance."""
    return [random - attention]


def gap_share(gap: float, unrepaired: float) -> list[Value]:
    """The gap in percent of the error without repair."""
    return [100 * gap / unrepaired]


def rounded_gap_share(gap: float, unrepaired: float, step: float) -> list[Value]:
    """The same when the gap is a difference of two errors, each known to a printed step."""
    return [Range(100 * (gap - step) / (unrepaired + step / 2), 100 * (gap + step) / (unrepaired - step / 2))]


def kept_chunks(chunks: int, share: float) -> list[Value]:
    """Budget spent by a whole number of chunks, at least one, in percent (Table 8's caption)."""
    return [100 * max(1, round(share * chunks)) / chunks]


def above_smallest(rows: Sequence[float]) -> list[Value]:
    """How far the largest is above the smallest, in percent."""
    return [100 * (max(rows) / min(rows) - 1)]


def row_ratios(upper: Sequence[Sequence[float]], lower: Sequence[Sequence[float]]) -> list[Value]:
    """Cell by cell, the upper row over the lower."""
    return [a / b for above, below in zip(upper, lower, strict=True) for a, b in zip(above, below, strict=True)]


def row_ratio_extremes(upper: Sequence[Sequence[float]], lower: Sequence[Sequence[float]]) -> list[Value]:
    """The lowest and highest of them."""
    ratios = [a / b for above, below in zip(upper, lower, strict=True) for a, b in zip(above, below, strict=True)]
    return [min(ratios), max(ratios)]
