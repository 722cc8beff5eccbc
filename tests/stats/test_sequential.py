"""The test martingale: fair under no effect, exactly and by simulation, however often one looks."""

from __future__ import annotations

from math import comb, isinf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta, binom

from bcrbench.stats.sequential import e_value, follow

pairs = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60)


@given(m=st.integers(0, 60), prior=st.sampled_from([0.5, 1.0, 3.0]))
def test_the_mean_wealth_is_one_after_any_number_of_fair_coins(m: int, prior: float) -> None:
    assert sum(comb(m, b) * e_value(b, m - b, prior) for b in range(m + 1)) / 2**m == pytest.approx(1)


@given(b=st.integers(0, 40), c=st.integers(0, 40), prior=st.sampled_from([0.5, 1.0, 3.0]))
def test_each_bet_is_fair(b: int, c: int, prior: float) -> None:
    """A martingale: the wealth is the mean of what the two next outcomes make of it."""
    now = e_value(b, c, prior)
    assert (e_value(b + 1, c, prior) + e_value(b, c + 1, prior)) / 2 == pytest.approx(now)
    assert e_value(c, b, prior) == pytest.approx(now)


@pytest.mark.parametrize(("b", "c"), [(0, 0), (23, 10), (9, 49), (5, 5)])
def test_the_wealth_is_the_integral_over_the_coin(b: int, c: int) -> None:
    found, _ = quad(lambda q: beta.pdf(q, 2, 2) * (2 * q) ** b * (2 * (1 - q)) ** c, 0, 1)
    assert e_value(b, c, 2.0) == pytest.approx(found)


def ever_reached(alpha: float, most: int) -> float:
    """Exact chance that the wealth reaches 1/alpha within so many fair coins: paths that did are taken out."""
    alive, reached = np.array([1.0]), 0.0
    for m in range(1, most + 1):
        alive = (np.append(alive, 0) + np.append(0, alive)) / 2
        stop = np.array([e_value(b, m - b) >= 1 / alpha for b in range(m + 1)])
        reached += alive[stop].sum()
        alive[stop] = 0
    return reached


def test_looking_after_every_item_keeps_the_size() -> None:
    """Exactly, up to 400 discordant items; looking at the exact test as often errs several times as often."""
    assert 0.005 < ever_reached(0.05, 400) <= 0.05
    assert ever_reached(0.2, 300) <= 0.2


def test_size_and_stopping_by_simulation() -> None:
    """1500 runs of 300 items without effect, 11 % discordant: standard error 0.0056, three of them allowed."""
    rng = np.random.default_rng(2)
    runs = 1500
    kinds = rng.choice(3, size=(runs, 300), p=[0.055, 0.055, 0.89])
    found = [follow((row == 0).tolist(), (row == 1).tolist()) for row in kinds]
    assert np.mean([one.stopped_at is not None for one in found]) <= 0.05 + 3 * 0.0056
    assert np.mean([one.p <= 0.05 for one in found]) <= 0.05 + 3 * 0.0056
    assert np.mean([_looks_significant(row) for row in kinds[:300]]) > 0.1


def _looks_significant(row: np.ndarray) -> bool:
    """Whether the exact test is below 0.05 at any item."""
    b, c = np.cumsum(row == 0), np.cumsum(row == 1)
    return bool((2 * binom.cdf(np.minimum(b, c), b + c, 0.5) < 0.05).any())


@given(items=pairs, alpha=st.floats(0.02, 0.95))
def test_a_run_is_followed_item_by_item(items: list[tuple[bool, bool]], alpha: float) -> None:
    reference, row = [one for one, _ in items], [two for _, two in items]
    found = follow(reference, row, alpha)
    wealth, b, c = [1.0], 0, 0
    for one, two in items:
        b, c = b + (one and not two), c + (two and not one)
        wealth.append(e_value(b, c))
    assert (found.split, found.e) == ((b, c), pytest.approx(wealth[-1]))
    assert found.p == pytest.approx(1 / max(wealth))
    first = next((k for k, held in enumerate(wealth) if k and held >= 1 / alpha), None)
    assert found.stopped_at == first
    assert (found.stopped_split is None) == (first is None)


def test_a_clear_effect_stops_early_and_huge_evidence_is_infinite() -> None:
    found = follow([True] * 60, [False] * 60)
    assert found.stopped_at == 8 and found.stopped_split == (8, 0)
    assert isinf(e_value(5000, 0)) and follow([True] * 5000, [False] * 5000).p < 1e-300


def test_unequal_lists_are_refused() -> None:
    with pytest.raises(ValueError, match="argument"):
        follow([True], [])
