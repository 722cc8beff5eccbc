"""The same items run again in several cells: tests on one net an item, never on the pooled pairs (App. H.1).

Pooling a cell's discordant pairs with another's counts an item's difficulty once a cell. The per-item net keeps the
item as the unit: the sign-flip permutation test is primary, the rest is printed beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt
from typing import NamedTuple

from bcrbench.stats.differences import PairedTest, paired_t, sign_flip, wilcoxon

Cell = tuple[Sequence[bool], Sequence[bool]]


class ItemLevel(NamedTuple):
    """The tests of per-item nets, beside what they are made of."""

    items: int
    net: int  # the sum of the nets
    squares: int  # the sum of their squares, on which every normal form rests
    ahead: int  # items with a positive net
    behind: int
    p: float  # exact sign-flip permutation
    durkalski: PairedTest
    obuchowski: PairedTest
    paired_t: PairedTest
    wilcoxon: PairedTest


def item_nets(cells: Iterable[Cell]) -> list[int]:
    """Per item, in how many more cells the first condition solves it than the second.

    Each cell is the two conditions' solved flags over the same items in the same order; ValueError for unequal lengths
    and for no cell.
    """
    nets: list[int] = []
    for number, (first, second) in enumerate(cells):
        cell = [int(one) - int(two) for one, two in zip(first, second, strict=True)]
        nets = [sum(pair) for pair in zip(nets, cell, strict=True)] if number else cell
    if not nets:
        raise ValueError("no cell with items, expected at least one")
    return nets


def durkalski(nets: Sequence[int]) -> PairedTest:
    """Durkalski's clustered McNemar test, z = sum d / sqrt(sum d^2); z is 0 where every net is.

    The normal form of `sign_flip`. Source: Durkalski et al., Statistics in Medicine 22 (2003) 2417-2428.
    """
    return _normal("Durkalski z", sum(nets), sum(net * net for net in nets))


def obuchowski(nets: Sequence[int]) -> PairedTest:
    """Obuchowski's variant: nets centred at their mean, variance scaled by K / (K - 1); undefined where it is 0.

    K counts all clusters, those with net 0 too. Source: Obuchowski, Statistics in Medicine 17 (1998) 1495-1507.
    """
    k, total = len(nets), sum(nets)
    if k < 2:
        return PairedTest("Obuchowski z", None, None)
    centred = sum(net * net for net in nets) - total * total / k
    if centred <= 0 and total:
        return PairedTest("Obuchowski z", None, None)
    return _normal("Obuchowski z", total, centred * k / (k - 1))


def _normal(name: str, total: int, variance: float) -> PairedTest:
    if not total:
        return PairedTest(name, 0.0, 1.0)
    from scipy.stats import norm

    z = total / sqrt(variance)
    return PairedTest(name, z, float(2 * norm.sf(abs(z))))


def item_level(nets: Sequence[int]) -> ItemLevel:
    """Every test of per-item nets. Raises ValueError for nets that are not whole."""
    return ItemLevel(
        items=len(nets),
        net=sum(nets),
        squares=sum(net * net for net in nets),
        ahead=sum(net > 0 for net in nets),
        behind=sum(net < 0 for net in nets),
        p=sign_flip(nets),
        durkalski=durkalski(nets),
        obuchowski=obuchowski(nets),
        paired_t=paired_t(nets),
        wilcoxon=wilcoxon(nets, "asymptotic"),
    )
