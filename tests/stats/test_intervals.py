"""Wilson and Newcombe intervals: against scipy, the paper, a textbook table, and what every interval must do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binomtest

from bcrbench.stats.intervals import newcombe, wilson

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
