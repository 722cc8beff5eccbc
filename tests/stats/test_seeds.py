"""Intervals over seeds against scipy, and Eq. 3's line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bcrbench.stats.reuse_line import line_through
from bcrbench.stats.seeds import over_seeds

accuracies = st.lists(st.integers(0, 150).map(lambda k: k / 150), min_size=2, max_size=8)


@given(values=accuracies, level=st.sampled_from([0.9, 0.95]))
def test_the_interval_is_scipys(values: list[float], level: float) -> None:
    found = over_seeds(values, level)
    assert found.spread == pytest.approx(max(values) - min(values))
    if len(set(values)) > 1:
        expected = stats.t.interval(level, len(values) - 1, loc=found.mean, scale=stats.sem(values))
        assert (found.low, found.high) == pytest.approx(tuple(map(float, expected)), abs=1e-9)


def test_one_seed_has_no_interval() -> None:
    assert over_seeds([0.8]) == (1, 0.8, None, None, None, None, None)
    with pytest.raises(ValueError, match="no seed"):
        over_seeds([])


def test_the_intervals_cover() -> None:
    """Four seeds of a normal accuracy, 1000 runs: 95 % give or take three standard errors of 0.7 points."""
    import numpy as np

    draws = np.random.default_rng(5).normal(0.775, 0.03, (1000, 4))
    found = [over_seeds(row.tolist()) for row in draws]
    covered = np.mean([(one.low or 0) <= 0.775 <= (one.high or 0) for one in found])
    assert covered == pytest.approx(0.95, abs=0.021)


@given(dense=st.floats(0, 1), kvcomm=st.floats(0, 1), reuse=st.floats(0.01, 1), at=st.floats(0, 1))
def test_the_line_goes_through_both_and_residuals_add_up(dense: float, kvcomm: float, reuse: float, at: float) -> None:
    line = line_through(dense, kvcomm, reuse)
    assert line.residual(dense, 0.0) == 0
    assert line.predicted(reuse) == pytest.approx(kvcomm, abs=1e-9)
    assert line.predicted(at) + line.residual(0.5, at) == pytest.approx(0.5)


def test_two_points_at_no_reuse_have_no_line() -> None:
    with pytest.raises(ValueError, match="expected more than 0"):
        line_through(0.8, 0.7, 0.0)
