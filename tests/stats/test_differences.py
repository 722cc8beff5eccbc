"""Tests of paired differences: against every assignment of signs, against scipy, against each other."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bcrbench.stats.differences import differences, paired_t, sign_flip, sign_test, wilcoxon
from bcrbench.stats.paired import mcnemar

nets = st.lists(st.integers(-5, 5), max_size=10)
reals = st.lists(st.floats(-100, 100).map(lambda x: round(x, 3)), min_size=2, max_size=12)


def every_assignment(values: list[int]) -> Fraction:
    """Share of the 2^m assignments of signs whose sum is at least as far from 0."""
    observed = abs(sum(values))
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, values))) for signs in product((1, -1), repeat=len(values))
    ]
    return Fraction(sum(one >= observed for one in sums), len(sums))


@given(values=nets)
def test_the_sign_flip_p_is_that_of_every_assignment(values: list[int]) -> None:
    assert sign_flip(values) == float(every_assignment(values))


@given(b=st.integers(0, 60), c=st.integers(0, 60), ties=st.integers(0, 20))
def test_with_nets_of_one_it_is_the_exact_mcnemar_test(b: int, c: int, ties: int) -> None:
    assert sign_flip([1] * b + [-1] * c + [0] * ties) == pytest.approx(mcnemar(b, c), rel=1e-9)


def test_47_24_without_overlap() -> None:
    assert f"{sign_flip([1] * 47 + [-1] * 24):.7f}" == "0.0085545"


@given(values=nets, order=st.randoms(use_true_random=False))
def test_it_ignores_order_zeros_and_direction(values: list[int], order: object) -> None:
    shuffled = [-value for value in values] + [0, 0]
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert sign_flip(shuffled) == sign_flip(values)


def test_it_is_scipys_permutation_test_in_full() -> None:
    values = np.array([3, -1, 2, 2, -4, 1, 1, 0, 3])
    found = stats.permutation_test((values,), np.sum, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip(values.tolist()) == pytest.approx(found.pvalue)


def test_fractions_are_refused() -> None:
    with pytest.raises(ValueError, match="not a whole number"):
        sign_flip([0.5])  # type: ignore[list-item]


@given(values=reals)
def test_wilcoxon_is_scipys_with_its_method_named(values: list[float]) -> None:
    found = wilcoxon(values, "asymptotic")
    if not any(values):
        assert (found.statistic, found.p) == (0.0, 1.0)
        return
    expected = stats.wilcoxon(values, zero_method="wilcox", correction=False, method="asymptotic")
    assert (found.statistic, found.p) == pytest.approx((expected.statistic, expected.pvalue), nan_ok=True)
    assert "asymptotic" in found.method


@given(values=st.lists(st.integers(-4, 4), max_size=9))
def test_exact_wilcoxon_enumerates_the_ranks_as_they_are(values: list[int]) -> None:
    kept = [value for value in values if value]
    ranks = stats.rankdata([abs(value) for value in kept]) if kept else []
    signed = [round(2 * rank) * (1 if value > 0 else -1) for rank, value in zip(ranks, kept)]
    assert wilcoxon(values, "exact").p == pytest.approx(float(every_assignment(signed)))


@given(values=st.lists(st.integers(-1000, 1000).filter(bool), min_size=1, max_size=12, unique_by=abs))
def test_exact_wilcoxon_without_ties_is_scipys(values: list[int]) -> None:
    assert wilcoxon(values, "exact").p == pytest.approx(stats.wilcoxon(values, method="exact").pvalue)


@given(values=reals)
def test_the_t_test_is_scipys_or_absent(values: list[float]) -> None:
    found = paired_t(values)
    if len(set(values)) == 1:
        assert found.p is None and paired_t([]).p is None
        return
    expected = stats.ttest_1samp(values, 0.0)
    assert (found.statistic, found.p) == pytest.approx((expected.statistic, expected.pvalue))


@given(values=reals)
def test_the_sign_test_is_mcnemars_of_the_signs(values: list[float]) -> None:
    assert sign_test(values).p == mcnemar(sum(value > 0 for value in values), sum(value < 0 for value in values))


def test_the_papers_83_of_150() -> None:
    assert f"{sign_test([1.0] * 83 + [-1.0] * 67).p:.2f}" == "0.22"


def test_pairs_must_pair() -> None:
    assert differences([3.0, 1.0], [1.0, 1.5]) == [2.0, -0.5]
    with pytest.raises(ValueError, match="argument"):
        differences([1.0], [])
