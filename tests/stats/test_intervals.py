"""Wilson and Newcombe intervals: against scipy, the paper, a textbook table, and what every interval must do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binomtest

from bcrbench.stats.intervals import newcombe, paired_error, wald, wilson

PAPER = json.loads((Path(__file__).parents[1] / "data" / "paper_tests.json").read_text())["wilson"]
cell = st.integers(0, 200)


@given(n=st.integers(1, 2000), data=st.data(), level=st.sampled_from([0.9, 0.95, 0.99]))
def test_wilson_is_scipys_and_holds_the_estimate(n: int, data: st.DataObject, level: float) -> None:
    k = data.draw(st.integers(0, n))
    low, high = wilson(k, n, level)
    expected = binomtest(k, n).proportion_ci(level, method="wilson")
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert 0 <= low <= k / n <= high <= 1


@pytest.mark.parametrize("row", PAPER, ids=lambda row: f"{row['table']}-{row['cell']}")
def test_printed_intervals_of_the_paper(row: dict[str, Any]) -> None:
    found = [100 * bound for bound in wilson(row["k"], row["n"])]
    assert found == pytest.approx(row["computed"], abs=6e-4)
    digits = 0 if all(isinstance(bound, int) for bound in row["printed"]) else 1
    assert [float(f"{bound:.{digits}f}") for bound in found] == row["printed"]


@pytest.mark.parametrize(("k", "n"), [(0, 0), (-1, 3), (4, 3)])
def test_counts_that_are_no_share_are_refused(k: int, n: int) -> None:
    with pytest.raises(ValueError, match=f"{k} of {n}"):
        wilson(k, n)


def test_newcombe_gives_the_textbook_interval() -> None:
    assert newcombe(1, 1, 7, 12) == pytest.approx((-0.507, -0.026), abs=5e-4)


def test_newcombe_on_table_2() -> None:
    """KVComm against Dense: 257 and 244 of 300, split 23/10: 0.54 to 8.23 points."""
    low, high = newcombe(234, 23, 10, 33)
    assert (100 * low, 100 * high) == pytest.approx((0.54, 8.23), abs=5e-3)


@given(both=cell, first=cell, second=cell, neither=cell)
def test_newcombe_holds_the_difference_and_turns_with_it(both: int, first: int, second: int, neither: int) -> None:
    n = both + first + second + neither
    assume(n > 0)
    low, high = newcombe(both, first, second, neither)
    assert -1 - 1e-9 <= low <= (first - second) / n + 1e-12
    assert (first - second) / n - 1e-12 <= high <= 1 + 1e-9
    turned = newcombe(both, second, first, neither)
    assert turned == pytest.approx((-high, -low), abs=1e-12)


def test_published_example_of_newcombe_and_wald() -> None:
    """Response to consolidation therapy, Cavo 2012, in Fagerland, Lydersen and Laake's book on contingency tables."""
    assert newcombe(59, 6, 16, 80) == pytest.approx((-0.1186, -0.0046), abs=5e-5)
    assert wald(6, 16, 161) == pytest.approx((-0.1184, -0.0058), abs=5e-5)


def test_wald_on_table_2() -> None:
    assert f"{100 * paired_error(23, 10, 300):.2f}" == "1.90"
    assert wald(23, 10, 300) == pytest.approx((0.0061, 0.0805), abs=5e-5)


@given(first=cell, second=cell, rest=cell, ddof=st.sampled_from([0, 1]))
def test_the_paired_error_is_that_of_the_differences(first: int, second: int, rest: int, ddof: int) -> None:
    n = first + second + rest
    assume(n > 1)
    differences = np.repeat([1, -1, 0], [first, second, rest])
    assert paired_error(first, second, n, ddof) == pytest.approx(differences.std(ddof=ddof) / np.sqrt(n), abs=1e-12)
    low, high = wald(first, second, n, ddof=ddof)
    assert (low + high) / 2 == pytest.approx((first - second) / n)


@pytest.mark.parametrize("wrong", [(-1, 0, 5), (3, 3, 5), (0, 0, 0)])
def test_counts_that_do_not_fit_are_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="expected counts"):
        paired_error(*wrong)


@pytest.mark.parametrize(("one", "two"), [(0.077, 0.033), (0.02, 0.005)])
def test_newcombes_interval_covers(one: float, two: float) -> None:
    """1500 draws of 300 items: at least 95 % less three standard errors of 0.56 points."""
    both = 0.8
    draws = np.random.default_rng(6).multinomial(300, [both, one, two, 1 - both - one - two], size=1500)
    tables, counts = np.unique(draws, axis=0, return_counts=True)
    bounds = [newcombe(*map(int, row)) for row in tables]
    covered = sum(count for count, (low, high) in zip(counts, bounds, strict=True) if low <= one - two <= high)
    assert covered / 1500 > 0.95 - 0.017
