"""Row counts (paper App. B, Alg. 1 line 1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrbench.errors import UserError
from bcrbench.repair.budget import chunk_budget, row_budget

lengths = st.integers(1, 5000)
shares = st.floats(0, 1)


@given(cached=lengths, rho=shares)
def test_rows_are_exactly_the_rounded_share(cached: int, rho: float) -> None:
    budget = row_budget(cached, rho)
    assert budget.units == round(rho * cached)
    assert abs(budget.units - rho * cached) <= 0.5
    assert (budget.skipped is None) == (budget.units > 0)


@given(cached=lengths, size=st.integers(1, 100), rho=st.floats(0, 1, exclude_max=True))
def test_chunks_are_skipped_exactly_when_the_paper_says(cached: int, size: int, rho: float) -> None:
    budget = chunk_budget(cached, size, rho)
    if cached < 2 * size or rho * cached < size:
        assert budget.units == 0
        assert budget.skipped
    else:
        assert budget.units == round(rho * cached / size) >= 1
        assert budget.skipped is None
        assert budget.units * size <= cached + size  # never more chunks than the grid has


@given(cached=lengths, size=st.integers(1, 100))
def test_full_repair_takes_everything_and_is_never_skipped(cached: int, size: int) -> None:
    assert row_budget(cached, 1.0).units == cached
    budget = chunk_budget(cached, size, 1.0)
    assert budget.skipped is None
    assert (budget.units - 1) * size < cached <= budget.units * size


def test_ties_go_to_the_even_number() -> None:
    assert [row_budget(cached, 0.5).units for cached in (1, 3, 5, 7)] == [0, 2, 2, 4]


@pytest.mark.parametrize(
    ("cached", "why"), [(127, "M < 2B"), (128, "rho*M < B"), (319, "rho*M < B"), (320, None), (321, None)]
)
def test_reasons_of_the_default_chunk(cached: int, why: str | None) -> None:
    skipped = chunk_budget(cached, 64, 0.2).skipped
    assert skipped is None if why is None else skipped is not None and skipped.startswith(why)


def test_reasons_are_the_same_in_every_call() -> None:
    assert len({chunk_budget(cached, 64, 0.2).skipped for cached in range(1, 128)}) == 1
    assert len({chunk_budget(cached, 64, 0.2).skipped for cached in range(128, 320)}) == 1


def test_nothing_cached_is_skipped_even_by_a_full_repair() -> None:
    assert row_budget(0, 1.0).skipped
    assert chunk_budget(0, 64, 1.0).skipped


@pytest.mark.parametrize("rho", [-0.1, 1.01, float("nan"), float("inf")])
def test_a_share_outside_its_range_is_a_users_mistake(rho: float) -> None:
    with pytest.raises(UserError, match="rho="):
        row_budget(10, rho)
    with pytest.raises(UserError, match="rho="):
        chunk_budget(10, 2, rho)
