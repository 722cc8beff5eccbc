"""Speed-ups resampled by item: against scipy's own bootstrap, by coverage, and where nothing can be resampled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bcrbench.stats.bootstrap import RESAMPLES, SEED, mean_of_ratios, ratio_of_means, ratio_of_sums
from bcrbench.stats.latency import ratio_range, speedup, time_tests

times = st.lists(st.lists(st.tuples(st.floats(1, 1000), st.floats(1, 1000)), max_size=4), min_size=1, max_size=8)


@given(items=times)
@settings(max_examples=25, deadline=None)
def test_the_estimates_are_the_two_speedups(items: list[list[tuple[float, float]]]) -> None:
    before, after = ([[pair[k] for pair in item] for item in items] for k in (0, 1))
    flat = [pair for item in items for pair in item]
    if not flat:
        with pytest.raises(ValueError, match="0 items"):
            mean_of_ratios(before, after)
        return
    expected = speedup([one for one, _ in flat], [two for _, two in flat])
    for found, value in zip((mean_of_ratios(before, after), ratio_of_means(before, after)), expected):
        assert found.value == pytest.approx(value)
        assert (found.low is None) == (found.method == "none")
        assert found.method == "BCa" or found.reason


def test_with_one_call_an_item_it_is_scipys_bca_of_the_mean() -> None:
    ratios = np.random.default_rng(1).gamma(4, 0.7, 40)
    expected = stats.bootstrap(
        (ratios,), np.mean, n_resamples=RESAMPLES, method="BCa", rng=np.random.default_rng(SEED), batch=1000
    ).confidence_interval
    found = mean_of_ratios([[ratio] for ratio in ratios], [[1.0]] * 40)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=0.01)


def test_an_items_calls_are_drawn_together() -> None:
    """Calls that repeat each other add nothing: the interval is that of one call an item."""
    ratios = np.random.default_rng(4).gamma(4, 0.7, 30)
    once = mean_of_ratios([[ratio] for ratio in ratios], [[1.0]] * 30)
    often = mean_of_ratios([[ratio] * 5 for ratio in ratios], [[1.0] * 5] * 30)
    assert (often.low, often.high) == pytest.approx((once.low, once.high))
    assert mean_of_ratios([[ratio] for ratio in ratios], [[1.0]] * 30) == once


def test_the_intervals_cover() -> None:
    """150 runs of 40 items with four calls alike: at least 95 % less three standard errors of 1.8 points."""
    rng = np.random.default_rng(9)
    covered = 0
    for _ in range(150):
        item = np.exp(rng.normal(0.5, 0.3, 40))
        calls = (item[:, None] * np.exp(rng.normal(0, 0.05, (40, 4)))).tolist()
        found = mean_of_ratios(calls, [[1.0] * 4] * 40)
        covered += (found.low or 0) <= np.exp(0.5 + 0.09 / 2 + 0.0025 / 2) <= (found.high or 0)
    assert covered / 150 > 0.95 - 3 * 0.018


def test_an_items_two_sums_are_drawn_together() -> None:
    """Items of very unequal length, all about twice as fast: drawn apart, the interval would be ten times as wide."""
    rng = np.random.default_rng(8)
    after = np.exp(rng.normal(3, 1, 50))
    found = ratio_of_means([[one] for one in 2 * after * rng.normal(1, 0.01, 50)], [[one] for one in after])
    assert found.low is not None and found.high is not None
    assert 1.98 < found.low < found.value < found.high < 2.02


def test_constant_data_has_a_reason() -> None:
    found = mean_of_ratios([[4.0, 6.0], [8.0]], [[2.0, 3.0], [4.0]])
    assert found[:4] == (2.0, 2.0, 2.0, "percentile") and "BCa" in (found.reason or "")
    assert mean_of_ratios([[3.0]], [[2.0]])[1:4] == (None, None, "none")


def test_times_of_zero_and_unequal_lists() -> None:
    assert mean_of_ratios([[0.0, 4.0], [3.0, 9.0]], [[1.0, 2.0], [1.0, 3.0]]).value == pytest.approx(8 / 3)
    with pytest.raises(ValueError, match="argument"):
        mean_of_ratios([[1.0]], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="divisor above 0"):
        ratio_of_sums([1.0, 2.0], [1.0, 0.0])


@given(pairs=st.lists(st.tuples(st.floats(1, 100), st.floats(1, 100)), min_size=2, max_size=20))
def test_a_mean_of_ratios_is_within_its_range(pairs: list[tuple[float, float]]) -> None:
    before, after = np.array(pairs).T
    ratios = before / after
    variation = max(ratios.std() / ratios.mean(), after.std() / after.mean())
    if variation < 1:
        low, high = ratio_range(before.mean(), after.mean(), variation)
        assert low - 1e-9 <= ratios.mean() <= high + 1e-9
    else:
        with pytest.raises(ValueError, match="variation"):
            ratio_range(before.mean(), after.mean(), variation)


@pytest.mark.parametrize(("before", "bound"), [([1.0, 9.0], 0), ([3.0, 3.0], 1)])
def test_the_range_is_reached_where_ratios_follow_times(before: list[float], bound: int) -> None:
    """Ratios 1 and 3, or 3 and 1, of times 1 and 3: both vary by half, and their mean is 2 either way."""
    assert speedup(before, [1.0, 3.0]).mean_of_ratios == 2
    assert ratio_range(sum(before), 4.0, 0.5)[bound] == pytest.approx(2)


def test_tests_of_times_name_themselves() -> None:
    found = time_tests([3.0, 5.0, 9.0, 4.0], [1.0, 4.0, 9.0, 5.0])
    assert [one.method.split(",")[0] for one in found] == ["paired t", "Wilcoxon signed-rank", "sign test"]
    assert found[0].statistic is not None and found[0].statistic > 0, "positive where the row is faster"
