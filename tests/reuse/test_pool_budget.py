"""A pool's budget of bytes: never exceeded, evicting by the bucket's own rule, and no anchor half stored."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bcrbench.reuse.anchors import Pool
from bcrbench.reuse.block import Block

some = settings(max_examples=100, deadline=None)
SIZE = 2 * 2 * 4 * 4  # bytes of a row: keys and values, 2 layers of 4 numbers
CONSUMERS = ("1", "2", "3")

# An item: a length for each of two buckets, which consumers are dense, how often the gate activates its anchor.
items = st.lists(
    st.tuples(
        st.integers(1, 6), st.integers(1, 6), st.lists(st.sampled_from(CONSUMERS), min_size=1, max_size=3, unique=True),
        st.integers(0, 3),
    ),
    max_size=15,
)  # fmt: skip


def block(tokens: int, number: int) -> Block:
    rows = torch.full((tokens, 2, 1, 4), float(number))
    return Block(rows, rows + 1, 0)


def play(pool: Pool, history: list[Any]) -> None:
    for number, (first, second, consumers, bumps) in enumerate(history):
        for consumer in consumers:
            for name, tokens in (("question", first), ("agent_1", second)):
                pool.store(name, f"q{number}", consumer, block(tokens, number), block(tokens, 1), block(2, 2))
                check(pool)
        for bucket in pool.buckets.values():
            anchor = bucket.find(f"q{number}")
            if anchor is not None:
                assert set(anchor.deviations) == set(consumers), "an anchor lacks a consumer that stored"
                anchor.count += bumps


def check(pool: Pool) -> None:
    held = sum(
        tensor.nbytes
        for bucket in pool.buckets.values()
        for anchor in bucket.anchors
        for stored in (anchor.base, *(part for kept in anchor.deviations.values() for part in vars(kept).values()))
        for tensor in (stored.keys, stored.values)
    )
    assert pool.bytes == held <= pool.peak_bytes
    assert pool.budget is None or pool.peak_bytes <= pool.budget


@some
@given(history=items, rows=st.integers(1, 150), size=st.tuples(st.integers(2, 5), st.integers(1, 5)))
def test_the_budget_is_never_exceeded_and_no_anchor_is_half_stored(
    history: list[Any], rows: int, size: tuple[int, int]
) -> None:
    capacity, window = size[0], min(size)
    play(Pool(capacity, window, budget=rows * SIZE), history)


@some
@given(history=items, size=st.tuples(st.integers(2, 5), st.integers(1, 5)))
def test_a_budget_that_is_not_reached_changes_nothing(history: list[Any], size: tuple[int, int]) -> None:
    capacity, window = size[0], min(size)
    free = Pool(capacity, window)
    play(free, history)
    bound = Pool(capacity, window, budget=free.peak_bytes)
    play(bound, history)
    assert bound.hash() == free.hash() and not bound.evicted_for_bytes and not bound.refused_for_bytes


def test_the_least_used_of_the_window_goes_first() -> None:
    pool = Pool(capacity=10, window=2, budget=3 * (4 + 4 + 2) * SIZE)
    for number in range(3):
        pool.store("question", f"q{number}", "1", block(4, number), block(4, 1), block(2, 2))
    pool.bucket("question").anchors[0].count = 1
    pool.store("question", "q3", "1", block(4, 3), block(4, 1), block(2, 2))
    assert [anchor.key for anchor in pool.bucket("question").anchors] == ["q0", "q2", "q3"]
    assert (pool.evicted_for_bytes, pool.refused_for_bytes) == (1, 0)


def test_what_is_larger_than_the_budget_is_not_stored_and_not_begun_again() -> None:
    pool = Pool(budget=(4 + 4 + 2) * SIZE)
    pool.store("question", "q0", "1", block(4, 0), block(4, 1), block(2, 2))
    for consumer in CONSUMERS[1:]:
        pool.store("question", "q0", consumer, block(4, 0), block(4, 1), block(2, 2))
        assert pool.bucket("question").anchors == []
    assert (pool.evicted_for_bytes, pool.refused_for_bytes) == (0, 1)
    pool.store("question", "q1", "1", block(4, 0), block(4, 1), block(2, 2))
    assert [anchor.key for anchor in pool.bucket("question").anchors] == ["q1"]
