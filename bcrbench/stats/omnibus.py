"""More than two conditions on the same items: does any differ? (Cochran's Q.)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Omnibus(NamedTuple):
    """Cochran's Q, its degrees of freedom and the chi-square p."""

    q: float
    df: int
    p: float


def cochran_q(conditions: Sequence[Sequence[bool]]) -> Omnibus:
    """Cochran's Q over conditions, each its solved flags on the same items in the same order.

    With two conditions Q is McNemar's chi-square without continuity correction. No discordant item: Q is 0 and p is 1.
    The chi-square is an approximation: read it with care below about 20 discordant items. Raises ValueError for fewer
    than two conditions or unequal lengths.
    """
    if len(conditions) < 2:
        raise ValueError(f"{len(conditions)} conditions, expected at least two")
    items = list(zip(*conditions, strict=True))
    if all(len(set(item)) == 1 for item in items):
        return Omnibus(0.0, len(conditions) - 1, 1.0)
    from statsmodels.stats.contingency_tables import cochrans_q

    found = cochrans_q([[int(flag) for flag in item] for item in items])
    return Omnibus(float(found.statistic), len(conditions) - 1, float(found.pvalue))
