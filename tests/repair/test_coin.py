"""The coin: uniform over units, and a function of (seed, index of the repaired call) alone (paper App. H)."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from repair_views import CACHED, bare_view, some_view

from bcrbench.repair.layouts import Chunk, Grow, Layout, Selection, Single
from bcrbench.repair.selectors.coin import Coin

CALLS = 3000
# Quantiles 1 - 1e-4 of chi-square; draws without replacement spread less than it assumes.
BOUND = {5: 25.7, 40: 82.1}


def toss(layout: Layout, cached: int, seed: int = 0, index: int = 0, rho: float = 0.3) -> Selection:
    return layout.rows(bare_view([False] * cached, seed, index), Coin(), rho)


def chi_square(counts: torch.Tensor) -> float:
    expected = counts.double().mean()
    return float(((counts - expected) ** 2 / expected).sum())


def test_every_chunk_has_the_same_chance_a_one_row_chunk_included() -> None:
    counts = torch.zeros(6)
    for index in range(CALLS):
        for start, _ in toss(Chunk(B=8), 41, index=index).spans:
            counts[start // 8] += 1
    assert counts.sum() == 2 * CALLS
    assert chi_square(counts) < BOUND[5]


def test_every_row_has_the_same_chance() -> None:
    counts = torch.zeros(41)
    for index in range(CALLS):
        counts[toss(Single(), 41, index=index).rows] += 1
    assert chi_square(counts) < BOUND[40]


def test_seeds_are_streams_of_their_own() -> None:
    """The first call over many seeds is as uniform as many calls under one seed."""
    counts = torch.zeros(6)
    for seed in range(CALLS):
        for start, _ in toss(Chunk(B=8), 41, seed=seed).spans:
            counts[start // 8] += 1
    assert chi_square(counts) < BOUND[5]


def test_draws_of_neighbouring_calls_and_seeds_are_unrelated() -> None:
    draws = torch.stack([Coin().scores(bare_view([False] * 400, *case)) for case in ((0, 0), (0, 1), (1, 0), (1, 1))])
    correlation = torch.corrcoef(draws) - torch.eye(4)
    assert correlation.abs().max() < 0.2  # four standard errors at 400 draws


@given(seed=st.integers(-5, 2**40), index=st.integers(0, 10**6), state=st.integers(0, 100))
def test_draws_depend_on_seed_and_index_alone(seed: int, index: int, state: int) -> None:
    first = Coin().scores(bare_view([False] * 30, seed, index))
    torch.manual_seed(state)
    random.seed(state)
    Coin().scores(bare_view([True] * 7, state, state))  # another call's draws in between
    again = Coin().scores(bare_view([True] * 50, seed, index))
    assert torch.equal(again[:30], first)
    assert not torch.equal(Coin().scores(bare_view([False] * 30, seed, index + 1)), first)
    assert not torch.equal(Coin().scores(bare_view([False] * 30, seed + 1, index)), first)


@pytest.mark.parametrize("layout", [Chunk(B=8), Grow(cap=8), Single()])
def test_cache_and_prompt_do_not_matter(layout: Layout) -> None:
    """Two prompts, two caches, one (seed, index): the same rows as for a view without a model."""
    found = [layout.rows(some_view(seed=prompt, coin=3, index=9), Coin(), 0.3) for prompt in (0, 1)]
    assert found[0] == found[1] == toss(layout, CACHED, seed=3, index=9)
    assert found[0] != toss(layout, CACHED, seed=4, index=9)


def test_the_coin_draws_from_no_shared_generator() -> None:
    view = bare_view([False] * 20)
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    Coin().unit_scores(view, [range(10), range(10, 20)], Coin().scores(view))
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert random.getstate() == python_state


def test_the_stream_is_the_same_on_every_machine() -> None:
    """Logged runs stay reproducible: these numbers may never change."""
    draws = Coin().scores(bare_view([False] * 3, seed=1, index=2))
    assert draws.tolist() == pytest.approx([0.7403245, 0.0312050, 0.9468988], abs=1e-6)
