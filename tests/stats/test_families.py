"""Cochran's Q and adjusted p: against published examples, definitions and brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bcrbench.stats.families import Family
from bcrbench.stats.omnibus import cochran_q
from bcrbench.stats.paired import mcnemar, split

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=6)


def test_cochrans_q_of_the_sas_manual() -> None:
    """PROC FREQ's example of three drugs and 46 patients: Q is 8.4706 on 2 degrees of freedom, p is 0.0145."""
    patients = {"FFF": 6, "FFU": 16, "FUF": 2, "FUU": 4, "UFF": 2, "UFU": 4, "UUF": 6, "UUU": 6}
    rows = [[letter == "F" for letter in row] for row, count in patients.items() for _ in range(count)]
    found = cochran_q([list(column) for column in zip(*rows)])
    assert (f"{found.q:.4f}", found.df, f"{found.p:.4f}") == ("8.4706", 2, "0.0145")


@given(pairs=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_with_two_conditions_it_is_mcnemars_chi_square(pairs: list[tuple[bool, bool]]) -> None:
    one, two = [list(column) for column in zip(*pairs)]
    b, c = split(one, two)
    found = cochran_q([one, two])
    assert found.q == pytest.approx((b - c) ** 2 / (b + c) if b + c else 0)
    assert found.p == pytest.approx(stats.chi2.sf(found.q, 1))


def test_no_discordant_item_is_no_evidence() -> None:
    assert cochran_q([[True, False]] * 3) == (0.0, 2, 1.0)


def test_conditions_must_be_several_and_of_one_length() -> None:
    with pytest.raises(ValueError, match="at least two"):
        cochran_q([[True]])
    with pytest.raises(ValueError, match="argument"):
        cochran_q([[True], [True, False]])


def test_the_chi_square_is_near_the_permutation_test() -> None:
    """4000 permutations within items: standard error below 0.008 at any p, three of them allowed."""
    rng = np.random.default_rng(3)
    outcomes = rng.random((80, 4)) < [0.6, 0.65, 0.7, 0.8]
    shuffled = rng.permuted(np.broadcast_to(outcomes, (4000, 80, 4)), axis=2).sum(axis=1)
    spread = ((shuffled - shuffled.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    columns = outcomes.sum(axis=0)
    observed = ((columns - columns.mean()) ** 2).sum()
    assert cochran_q(outcomes.T.tolist()).p == pytest.approx(float(np.mean(spread >= observed - 1e-9)), abs=0.024)


@given(ps=p_values)
@settings(max_examples=20, deadline=None)  # the library collects garbage at every call
def test_holm_is_the_closure_of_bonferroni(ps: list[float]) -> None:
    """A test's adjusted p is the largest over all sub-families with it of their size times their smallest p."""
    found = Family("any", {f"{k}": p for k, p in enumerate(ps)}).holm()
    subsets = [part for size in range(1, len(ps) + 1) for part in combinations(range(len(ps)), size)]
    for k in range(len(ps)):
        expected = max(min(1.0, len(part) * min(ps[i] for i in part)) for part in subsets if k in part)
        assert found[f"{k}"] == pytest.approx(expected)


@given(ps=p_values)
@settings(max_examples=20, deadline=None)  # the library collects garbage at every call
def test_bonferroni_multiplies_and_is_never_below_holm(ps: list[float]) -> None:
    family = Family("any", {f"{k}": p for k, p in enumerate(ps)})
    holm, bonferroni = family.holm(), family.bonferroni()
    assert bonferroni == pytest.approx({f"{k}": min(1.0, len(ps) * p) for k, p in enumerate(ps)})
    assert all(holm[label] <= bonferroni[label] + 1e-12 for label in holm)


def test_the_papers_one_cell() -> None:
    """App. H.1: 14/4 among 12 tests is 0.37, among 36 it is 1; 1.8 errors are expected of 36."""
    rest = {f"other {k}": 0.5 for k in range(11)}
    assert f"{Family('own', {'cell': mcnemar(14, 4), **rest}).bonferroni()['cell']:.2f}" == "0.37"
    rest = {f"other {k}": 0.5 for k in range(35)}
    family = Family("grid", {"cell": mcnemar(14, 4), **rest})
    assert family.bonferroni()["cell"] == 1 and family.nominal_errors() == pytest.approx(1.8)


@pytest.mark.parametrize("ps", [{}, {"a": 1.2}, {"a": -0.1}, {"a": float("nan")}])
def test_what_is_no_family_is_refused(ps: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="family 'f'"):
        Family("f", ps)


def test_a_declared_family_does_not_change() -> None:
    ps = {"a": 0.01}
    family = Family("f", ps)
    ps["b"] = 0.5
    assert family.holm() == {"a": pytest.approx(0.01)}
    with pytest.raises(TypeError):
        family.ps["b"] = 0.5  # type: ignore[index]
