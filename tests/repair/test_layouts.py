"""From scores to rows: the three layouts on random scores, against the rule written out."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from repair_views import Given, bare_view
from torch import Tensor

from bcrbench.errors import RunFailed, UserError
from bcrbench.repair import LAYOUTS
from bcrbench.repair.layouts import Chunk, Grow, Layout, Selection, Single
from bcrbench.repair.selectors.base import Selector
from bcrbench.repair.view import RepairView

# Few distinct values make ties common; negative ones and zeros are in.
any_scores = st.lists(st.integers(-3, 6).map(float), min_size=1, max_size=60)
smooth_scores = st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=60)
either_scores = st.one_of(any_scores, smooth_scores)
shares = st.floats(0, 1)
overs = st.sampled_from(["all", "predicted"])


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    over = draw(overs)
    return draw(
        st.one_of(
            st.builds(Chunk, B=st.integers(1, 12), over=st.just(over)),
            st.builds(Grow, tau=shares, cap=st.integers(1, 12), over=st.just(over)),
            st.builds(Single, over=st.just(over)),
        )
    )


@st.composite
def scored(draw: st.DrawFn, scores: st.SearchStrategy[list[float]] = either_scores) -> tuple[list[float], list[bool]]:
    values = draw(scores)
    return values, draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))


def choose(layout: Layout, values: list[float], exact: list[bool] | None, rho: float) -> Selection:
    return layout.rows(bare_view(exact or [False] * len(values)), Given(values), rho)


@given(layout=layouts(), case=scored(), rho=shares)
def test_rows_are_ascending_in_range_and_made_of_the_spans(
    layout: Layout, case: tuple[list[float], list[bool]], rho: float
) -> None:
    values, exact = case
    found = choose(layout, values, exact, rho)
    assert found.rows == sorted(set(found.rows))
    assert all(0 <= j < len(values) for j in found.rows)
    assert [j for start, end in found.spans for j in range(start, end)] == found.rows
    assert (found.skipped is None) == bool(found.rows)
    if layout.over == "predicted":
        assert not any(exact[j] for j in found.rows)


@given(layout=layouts(), case=scored())
def test_a_full_repair_selects_every_row_it_may(layout: Layout, case: tuple[list[float], list[bool]]) -> None:
    values, exact = case
    rows = [j for j in range(len(values)) if layout.over == "all" or not exact[j]]
    assert choose(layout, values, exact, 1.0).rows == rows


@given(case=scored(), rho=shares, tau=shares, cap=st.integers(1, 12), over=overs)
def test_grow_and_single_spend_exactly(
    case: tuple[list[float], list[bool]], rho: float, tau: float, cap: int, over: str
) -> None:
    values, exact = case
    free = len(values) if over == "all" else exact.count(False)
    for layout in (Grow(tau=tau, cap=cap, over=over), Single(over=over)):
        assert len(choose(layout, values, exact, rho).rows) == min(round(rho * len(values)), free)


@given(case=scored(any_scores), rho=shares, over=overs)
def test_single_takes_the_best_rows_lower_ones_first(
    case: tuple[list[float], list[bool]], rho: float, over: str
) -> None:
    values, exact = case
    may = [j for j in range(len(values)) if over == "all" or not exact[j]]
    best = sorted(may, key=lambda j: (-values[j], j))[: round(rho * len(values))]
    assert choose(Single(over=over), values, exact, rho).rows == sorted(best)


@given(values=any_scores, rho=st.floats(0, 1, exclude_max=True), size=st.integers(1, 12))
def test_chunk_takes_the_best_means_lower_ones_first(values: list[float], rho: float, size: int) -> None:
    grid = [range(start, min(start + size, len(values))) for start in range(0, len(values), size)]
    means = [sum(Fraction(values[j]) for j in chunk) / len(chunk) for chunk in grid]
    found = choose(Chunk(B=size), values, None, rho)
    if found.skipped:
        assert len(values) < 2 * size or rho * len(values) < size
        return
    best = sorted(range(len(grid)), key=lambda i: (-means[i], i))[: round(rho * len(values) / size)]
    assert found.rows == [j for i in sorted(best) for j in grid[i]]
    assert found.spans == [(grid[i].start, grid[i].stop) for i in sorted(best)]


@given(value=st.floats(-1, 1, width=32), full=st.integers(2, 6), size=st.integers(2, 70), data=st.data())
def test_a_short_last_chunk_is_neither_favoured_nor_penalised(
    value: float, full: int, size: int, data: st.DataObject
) -> None:
    """Equal rows make equal chunks, in the last bit: the first ones win. The slightest more, and the last one does."""
    short = data.draw(st.integers(1, size - 1))
    values = [value] * (full * size + short)
    rho = 1.01 * size / len(values)  # one chunk
    assert choose(Chunk(B=size), values, None, rho).rows == list(range(size))
    more = torch.nextafter(torch.tensor(value), torch.tensor(2.0)).item()
    values[full * size :] = [more] * short
    assert choose(Chunk(B=size), values, None, rho).rows == list(range(full * size, full * size + short))


@given(case=scored(), rho=shares, tau=shares, cap=st.integers(1, 12), over=overs)
def test_grown_spans_obey_cap_and_threshold(
    case: tuple[list[float], list[bool]], rho: float, tau: float, cap: int, over: str
) -> None:
    values, exact = case
    found = choose(Grow(tau=tau, cap=cap, over=over), values, exact, rho)
    ends = [end for _, end in found.spans]
    assert all(end <= start for end, (start, _) in zip(ends, found.spans[1:]))  # no overlap
    for start, end in found.spans:
        assert 1 <= end - start <= cap
        seed = max(values[start:end])
        assert all(values[j] >= tau * seed or values[j] == seed for j in range(start, end))


@given(case=scored(), rho=shares, tau=shares, cap=st.integers(1, 12), over=overs)
def test_the_first_span_holds_the_best_row_and_stops_for_a_reason(
    case: tuple[list[float], list[bool]], rho: float, tau: float, cap: int, over: str
) -> None:
    values, exact = case
    may = [over == "all" or not known for known in exact]
    budget = min(round(rho * len(values)), sum(may))
    assume(budget > 0)
    best = min((j for j in range(len(values)) if may[j]), key=lambda j: (-values[j], j))
    spans = choose(Grow(tau=tau, cap=cap, over=over), values, exact, rho).spans
    start, end = next((start, end) for start, end in spans if start <= best < end)
    if end - start < min(cap, budget):
        for j in (start - 1, end):
            assert not 0 <= j < len(values) or not may[j] or values[j] < tau * values[best]


@given(case=scored(any_scores), tau=shares, cap=st.integers(1, 12), rhos=st.tuples(shares, shares))
def test_a_larger_budget_keeps_what_a_smaller_one_chose(
    case: tuple[list[float], list[bool]], tau: float, cap: int, rhos: tuple[float, float]
) -> None:
    """So the last span is cut to its best rows: growing goes on from where the smaller budget stopped."""
    values, _ = case
    less, more = (choose(Grow(tau=tau, cap=cap), values, None, rho).rows for rho in sorted(rhos))
    assert set(less) <= set(more)


def test_grow_by_hand() -> None:
    values = [0.0, 0.3, 1.0, 0.5, 0.2, 0.0, 0.8, 0.9, 0.1, 0.0]
    assert choose(Grow(), values, None, 0.3).spans == [(1, 4)]  # 1.0, then 0.5, then 0.3; 0.2 is under the threshold
    assert choose(Grow(), values, None, 0.5).spans == [(1, 4), (6, 8)]
    assert choose(Grow(cap=2), values, None, 0.5).spans == [(1, 2), (2, 4), (6, 8)]
    assert choose(Grow(tau=0.2), values, None, 0.4).spans == [(1, 5)]


def test_grow_on_flat_and_negative_scores() -> None:
    """A threshold of tau * seed: a flat rest of zeros goes in spans of `cap`, a negative row stands alone."""
    assert choose(Grow(cap=3), [0.0] * 10, None, 0.7).spans == [(0, 3), (3, 6), (6, 7)]
    assert choose(Grow(cap=3), [-1.0] * 10, None, 0.3).spans == [(0, 1), (1, 2), (2, 3)]
    assert choose(Grow(tau=1.0, cap=3), [-1.0] * 10, None, 0.3).spans == [(0, 3)]


def test_grow_never_reaches_across_rows_it_may_not_choose() -> None:
    exact = [False, False, True, False, False]
    found = choose(Grow(tau=0.0, over="predicted"), [1.0, 3.0, 9.0, 2.0, 1.0], exact, 0.6)
    assert found.spans == [(0, 2), (3, 4)]


def test_chunks_over_predicted_rows_are_narrowed() -> None:
    exact = [True] * 6 + [False] * 10
    values = [9.0] * 6 + [2.0] * 2 + [1.0] * 8  # rows 6 and 7 are the second chunk's predicted ones
    found = choose(Chunk(B=4, over="predicted"), values, exact, 0.5)
    assert found.spans == [(6, 8), (8, 12)]
    assert choose(Chunk(B=4), values, exact, 0.5).spans == [(0, 4), (4, 8)]
    # What is exact neither lifts a chunk's mean nor lowers it.
    assert choose(Chunk(B=4, over="predicted"), [0.0] * 6 + [2.0] * 2 + [1.5] * 8, exact, 0.3).spans == [(6, 8)]


def test_an_exact_row_inside_a_chunk_splits_it() -> None:
    exact = [False, True, False, False, True, True, True, True]
    assert choose(Chunk(B=4, over="predicted"), [1.0] * 8, exact, 0.9).spans == [(0, 1), (2, 4)]


class Untouchable(Selector):
    def scores(self, view: RepairView) -> Tensor:
        raise AssertionError("asked for nothing")


@pytest.mark.parametrize(
    ("layout", "exact", "rho"),
    [
        (Chunk(B=8), [False] * 15, 0.9),
        (Chunk(B=8), [False] * 39, 0.2),
        (Chunk(B=1), [False] * 9, 0.0),
        (Grow(), [False] * 4, 0.1),
        (Single(), [False] * 4, 0.0),
        (Single(over="predicted"), [True] * 4, 1.0),
        (Chunk(B=2, over="predicted"), [True] * 4, 1.0),
        (Grow(), [], 1.0),
    ],
)
def test_a_skipped_repair_says_why_and_asks_no_selector(layout: Layout, exact: list[bool], rho: float) -> None:
    found = layout.rows(bare_view(exact), Untouchable(), rho)
    assert found.skipped
    assert found.rows == found.spans == []


@pytest.mark.parametrize("values", [[1.0, float("nan")], [1.0, float("inf")], [1.0], [1.0, 2.0, 3.0]])
@pytest.mark.parametrize("name", ["chunk", "grow", "single"])
def test_scores_that_cannot_be_ranked_fail_the_run(name: str, values: list[float]) -> None:
    layout = Chunk(B=1) if name == "chunk" else LAYOUTS.get(name)()
    with pytest.raises(RunFailed, match="selector Given: expected 2 finite scores"):
        layout.rows(bare_view([False] * 2), Given(values), 1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Chunk(B=0),
        lambda: Grow(cap=0),
        lambda: Grow(tau=-0.1),
        lambda: Grow(tau=1.1),
        lambda: Single(over="some"),  # type: ignore[arg-type]
        lambda: Chunk(over="some"),  # type: ignore[arg-type]
    ],
)
def test_parameters_out_of_range_are_a_users_mistake(make: object) -> None:
    assert callable(make)
    with pytest.raises(UserError):
        make()


def test_the_papers_defaults() -> None:
    assert (Chunk().B, Grow().tau, Grow().cap) == (64, 0.25, 64)
    assert {LAYOUTS.get(name)().over for name in LAYOUTS.names()} == {"all"}
