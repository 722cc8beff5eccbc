"""Summaries of times against numpy, and the two averages of a speed-up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrbench.stats.latency import Speedup, Summary, median_of, speedup, summary

times = st.lists(st.floats(0.01, 1e5), min_size=1, max_size=50)


@given(values=times)
def test_quartiles_are_numpys(values: list[float]) -> None:
    found = summary(values)
    q1, middle, q3 = np.percentile(values, [25, 50, 75])
    assert (found.q1, found.median, found.q3, found.mean) == pytest.approx((q1, middle, q3, np.mean(values)))
    assert median_of(values) == pytest.approx(middle)


def test_nothing_has_no_summary() -> None:
    assert summary([]) == Summary(None, None, None, None)
    assert median_of([]) is None
    assert speedup([], []) == speedup([0.0], [1.0]) == Speedup(None, None)


@given(values=times, factor=st.floats(0.1, 10))
def test_a_uniform_speedup_is_the_same_both_ways(values: list[float], factor: float) -> None:
    found = speedup([factor * value for value in values], values)
    assert found == pytest.approx((factor, factor))


def test_the_two_averages_differ_when_long_calls_gain_more() -> None:
    assert speedup([10, 100], [10, 20]) == pytest.approx((3.0, 110 / 30))


def test_pairs_must_pair() -> None:
    with pytest.raises(ValueError, match="argument"):
        speedup([1.0], [])
