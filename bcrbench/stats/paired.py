"""Two conditions on the same items: the discordant split and the McNemar tests of it (paper section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

ALPHA = 0.05


class Split(NamedTuple):
    """Discordant items: `b` that only the reference solves, `c` that only the row solves."""

    b: int
    c: int

    @property
    def discordant(self) -> int:
        """Items on which the two disagree."""
        return self.b + self.c


def split(reference: Sequence[bool], row: Sequence[bool]) -> Split:
    """The discordant split of two lists of solved flags, item by item. Raises ValueError for unequal lengths."""
    pairs = list(zip(reference, row, strict=True))
    return Split(pairs.count((True, False)), pairs.count((False, True)))


def pool(splits: Iterable[Split]) -> Split:
    """The sum of several cells' splits, a description only: cells that share items have no p together."""
    cells = list(splits)
    return Split(sum(cell.b for cell in cells), sum(cell.c for cell in cells))


def mcnemar(b: int, c: int) -> float:
    """Two-sided p of the exact McNemar test: a fair coin over the discordant items; 1 when there are none."""
    return _exact(min(b, c), b + c) if b + c else 1.0


@lru_cache(maxsize=4096)  # tables and searches for an edge ask for the same splits again and again
def _exact(fewer: int, discordant: int) -> float:
    from scipy.stats import binomtest  # half a second to import, so only when a test is wanted

    return float(binomtest(fewer, discordant).pvalue)


def mcnemar_midp(b: int, c: int) -> float:
    """Two-sided mid-p of the same test: what is observed counts half; less conservative, to be labelled as mid-p.

    Source: Fagerland, Lydersen and Laake, BMC Medical Research Methodology 13 (2013) 91. No library has it.
    """
    from scipy.stats import binom

    observed = float(binom.pmf(min(b, c), b + c, 0.5))
    return 1 - observed / 2 if b == c else mcnemar(b, c) - observed


def attained_size(discordant: int, alpha: float = ALPHA) -> float:
    """How often the exact test of so many discordant items errs when there is no effect: at most `alpha`."""
    edge = smallest_significant(discordant, alpha)
    return mcnemar(*edge) if edge else 0.0


def smallest_significant(discordant: int, alpha: float = ALPHA) -> Split | None:
    """The most even split of so many discordant items that is significant; None when no split of them is."""
    for fewer in range(discordant // 2, -1, -1):
        if mcnemar(discordant - fewer, fewer) < alpha:
            return Split(discordant - fewer, fewer)
    return None
