"""Power of the exact test: against every outcome of few items, against simulation, against the figures it was set."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcrbench.stats.paired import mcnemar
from bcrbench.stats.power import detectable, power, smallest_n

rates = st.tuples(st.floats(0, 0.5), st.floats(0, 0.5))


def every_outcome(n: int, one: float, two: float, alpha: float) -> float:
    """Sum over all splits of n items of their probability, where the exact test rejects."""
    return sum(
        comb(n, b) * comb(n - b, c) * one**b * two**c * (1 - one - two) ** (n - b - c)
        for b in range(n + 1)
        for c in range(n + 1 - b)
        if mcnemar(b, c) < alpha
    )


@given(n=st.integers(1, 24), pair=rates, alpha=st.sampled_from([0.05, 0.01, 0.2]))
@settings(max_examples=60, deadline=None)
def test_power_is_the_sum_over_every_outcome(n: int, pair: tuple[float, float], alpha: float) -> None:
    assert power(n, *pair, alpha) == pytest.approx(every_outcome(n, *pair, alpha), abs=1e-9)


@pytest.mark.parametrize(("n", "expected"), [(150, 0.28), (300, 0.57), (600, 0.88), (1319, 0.999)])
def test_the_figures_at_table_2s_rates(n: int, expected: float) -> None:
    """Those were simulated at 7.7 % and 3.3 %, hence the room of 0.015."""
    assert power(n, 0.077, 0.033) == pytest.approx(expected, abs=0.015)


def test_power_agrees_with_simulation() -> None:
    """20 000 runs of 300 items: standard error 0.0035, three of them allowed."""
    draws = np.random.default_rng(11).multinomial(300, [0.077, 0.033, 0.89], size=20_000)
    splits, counts = np.unique(draws[:, :2], axis=0, return_counts=True)
    found = sum(count for (b, c), count in zip(splits, counts) if mcnemar(int(b), int(c)) < 0.05) / 20_000
    assert power(300, 0.077, 0.033) == pytest.approx(found, abs=0.0105)


@given(n=st.integers(1, 3000), pair=rates)
@settings(max_examples=60, deadline=None)
def test_it_is_symmetric_a_chance_and_at_most_alpha_without_effect(n: int, pair: tuple[float, float]) -> None:
    one, two = pair
    assert power(n, one, two) == pytest.approx(power(n, two, one), abs=1e-9)
    assert 0 <= power(n, one, two) <= 1 + 1e-9
    assert power(n, one, one) <= 0.05 + 1e-9


@pytest.mark.parametrize("pair", [(0.077, 0.033), (0.2, 0.1), (0.05, 0.0)])
def test_the_smallest_n_is_the_first_that_reaches_the_target(pair: tuple[float, float]) -> None:
    n = smallest_n(*pair)
    assert n is not None and smallest_n(pair[1], pair[0]) == n
    assert power(n, *pair) >= 0.8
    assert all(power(fewer, *pair) < 0.8 for fewer in range(1, n))


def test_no_effect_is_never_found() -> None:
    assert smallest_n(0.1, 0.1) is None
    assert smallest_n(0.0, 0.0) is None


@given(n=st.integers(60, 1500), discordant=st.floats(0.05, 0.6))
@settings(max_examples=25, deadline=None)
def test_the_detectable_effect_has_the_target_power(n: int, discordant: float) -> None:
    effect = detectable(n, discordant)
    if effect is None:
        assert power(n, discordant, 0.0) < 0.8
    else:
        assert 0 < effect <= discordant
        assert power(n, (discordant + effect) / 2, (discordant - effect) / 2) == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize("wrong", [(0, 0.1, 0.1), (10, -0.1, 0.1), (10, 0.6, 0.6)])
def test_what_is_no_plan_is_refused(wrong: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match="expected n > 0"):
        power(*wrong)
