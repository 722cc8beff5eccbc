"""The anchor pool under any history: order, eviction, slots, contents, weights and its hash."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from predictions import ARITHMETIC, KINDS, gated, predicted
from torch import Tensor

from bcrbench.engine.cache import SlotCache
from bcrbench.reuse.anchors import Bucket, Pool, Stored
from bcrbench.reuse.arithmetic import Arithmetic
from bcrbench.reuse.assemble import turn, weigh
from bcrbench.reuse.block import Block, flatten, read, write
from bcrbench.reuse.gate import activated

LAYERS, HEADS, DIM = 3, 2, 4
CONSUMERS = ("1", "2")
AFTER = {"1": 2, "2": 5}  # rows of the fixed segment behind the shared one, by consumer
FREQUENCIES = torch.tensor([1.0, 0.01])

# The fused one serves float32 alone.
WAYS = [(KINDS[0], dtype) for dtype in (torch.float32, torch.float16, torch.bfloat16)] + [(KINDS[1], torch.float32)]
some = settings(max_examples=60, deadline=None)


def random_block(tokens: int, seed: int, dtype: torch.dtype = torch.float32, origin: int = 0) -> Block:
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(2, tokens, LAYERS, HEADS, DIM, generator=generator).to(dtype)
    return Block(keys, values, origin)


@dataclass
class Plain:
    """An anchor as the specification describes it, with tensors of its own."""

    key: str
    base: Block
    count: int = 0
    deltas: dict[str, Block] = field(default_factory=dict)
    after: dict[str, Block] = field(default_factory=dict)

    def blocks(self) -> list[Block]:
        return [self.base, *self.deltas.values(), *self.after.values()]


class PlainBucket:
    """The pool as a list, written from the specification: what `Bucket` is compared with."""

    def __init__(self, capacity: int, window: int) -> None:
        self.capacity, self.window = capacity, window
        self.anchors: list[Plain] = []

    def store(self, key: str, consumer: str, base: Block, delta: Block, after: Block) -> None:
        if len(self.anchors) > self.capacity:
            window = self.anchors[: self.window]
            least = min(anchor.count for anchor in window)
            victim = next(anchor for anchor in window if anchor.count == least)
            self.anchors = [anchor for anchor in self.anchors if anchor is not victim]
        anchor = next((anchor for anchor in self.anchors if anchor.key == key), None)
        if anchor is None:
            anchor = Plain(key, base)
            self.anchors.append(anchor)
        anchor.base = base
        anchor.deltas[consumer], anchor.after[consumer] = delta, after

    def blend(self, segment: Block, after: Block, consumer: str) -> tuple[Block, Block]:
        """Anchor by anchor and layer by layer: the release's two weightings in float64."""
        used = [anchor for anchor in self.anchors if anchor.base.tokens >= segment.tokens]
        if not used or segment.tokens == 0:
            return segment, after
        parts: dict[str, Tensor] = {}
        for name in ("keys", "values"):
            rows, following = getattr(segment, name).double(), getattr(after, name).double()
            bases = [getattr(anchor.base, name).double() for anchor in used]
            count = segment.tokens
            by_row = torch.stack([(base[:count] - rows).abs().mean((1, 2, 3)) for base in bases])
            by_channel = torch.stack([(base[len(base) - count :] - rows).square().sum(0).sqrt() for base in bases])
            row_weights, channel_weights = torch.softmax(-by_row, 0), torch.softmax(-by_channel, 0)
            rows, following = rows.clone(), following.clone()
            for number, anchor in enumerate(used):
                delta = getattr(anchor.deltas[consumer], name).double()[:count]
                delta_after = getattr(anchor.after[consumer], name).double()
                for layer in range(1, LAYERS):
                    rows[:, layer] += row_weights[number][:, None, None] * delta[:, layer]
                    following[:, layer] += channel_weights[number, layer] * delta_after[:, layer]
            parts[name], parts[f"after_{name}"] = rows, following
        return Block(parts["keys"], parts["values"], 0), Block(parts["after_keys"], parts["after_values"], 0)


# A history is a list of questions: how long each segment is, which consumers are dense, how often it is activated.
histories = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from([("1", "2"), ("1",), ("2", "1")]), st.integers(0, 3)), max_size=30
)
sizes = st.tuples(st.integers(2, 6), st.integers(1, 6)).filter(lambda pair: pair[1] <= pair[0])


def play(
    history: list[Any], capacity: int, window: int, dtype: torch.dtype = torch.float32
) -> tuple[Bucket, PlainBucket]:
    """The same stores in both; after every one the two agree on who is there."""
    bucket, plain = Bucket(capacity, window), PlainBucket(capacity, window)
    for number, (tokens, consumers, bumps) in enumerate(history):
        for place, consumer in enumerate(consumers):
            seed = 100 * number + 10 * place
            blocks = [random_block(tokens, seed, dtype), random_block(tokens, seed + 1, dtype)]
            blocks.append(random_block(AFTER[consumer], seed + 2, dtype))
            for either in (bucket, plain):
                either.store(f"q{number}", consumer, *blocks)
            check_agreement(bucket, plain)
        if bumps:
            bump(bucket, plain, number % len(bucket.anchors), bumps)
    return bucket, plain


def bump(bucket: Bucket, plain: PlainBucket, index: int, by: int) -> None:
    bucket.anchors[index].count += by
    plain.anchors[index].count += by


def check_agreement(bucket: Bucket, plain: PlainBucket) -> None:
    assert [anchor.key for anchor in bucket.anchors] == [anchor.key for anchor in plain.anchors]
    assert [anchor.count for anchor in bucket.anchors] == [anchor.count for anchor in plain.anchors]
    assert len(bucket.anchors) <= bucket.capacity + 1
    sizes = [block.keys.nbytes + block.values.nbytes for anchor in plain.anchors for block in anchor.blocks()]
    assert bucket.bytes == sum(sizes)


@some
@given(history=histories, size=sizes)
def test_any_history_keeps_order_size_bytes_and_contents(history: list[Any], size: tuple[int, int]) -> None:
    bucket, plain = play(history, *size)
    for anchor, expected in zip(bucket.anchors, plain.anchors, strict=True):
        assert anchor.tokens == expected.base.tokens
        assert set(anchor.deviations) == set(expected.deltas)
        assert_kept(anchor.base, expected.base)
        for consumer, kept in anchor.deviations.items():
            assert_kept(kept.segment, expected.deltas[consumer])
            assert_kept(kept.after, expected.after[consumer])


def assert_kept(stored: Stored, block: Block) -> None:
    assert torch.equal(stored.keys, flatten(block.keys)) and stored.keys.is_contiguous()
    assert torch.equal(stored.values, flatten(block.values)) and stored.values.is_contiguous()


@some
@given(
    history=histories.filter(bool), size=sizes, tokens=st.integers(0, 12), seed=st.integers(0, 99),
    way=st.sampled_from(WAYS),
)  # fmt: skip
def test_assembly_equals_the_specification_after_any_history(
    history: list[Any], size: tuple[int, int], tokens: int, seed: int, way: tuple[Arithmetic, torch.dtype]
) -> None:
    arithmetic, dtype = way
    history = [(length, ("1", "2"), bumps) for length, _, bumps in history]
    bucket, plain = play(history, *size, dtype=dtype)
    segment = random_block(tokens, 10_000 + seed, dtype)
    weights = weigh(segment, None, bucket, arithmetic, None)
    for consumer in CONSUMERS:
        after = random_block(AFTER[consumer], 20_000 + seed, dtype)
        kept = [tensor.clone() for block in (segment, after) for tensor in (block.keys, block.values)]
        expected, expected_after = plain.blend(segment, after, consumer)
        if weights is None:
            assert not [anchor for anchor in plain.anchors if anchor.base.tokens >= tokens] or tokens == 0
            continue
        check_blend(predicted(segment, consumer, "segment", weights, arithmetic), segment, expected)
        check_blend(predicted(after, consumer, "after", weights, arithmetic), after, expected_after)
        now = [tensor for block in (segment, after) for tensor in (block.keys, block.values)]
        assert all(torch.equal(a, b) for a, b in zip(kept, now, strict=True)), "inputs were written to"


def check_blend(ours: Block, base: Block, expected: Block) -> None:
    for name in ("keys", "values"):
        found, before, wanted = getattr(ours, name), getattr(base, name), getattr(expected, name)
        assert found.dtype == before.dtype
        assert torch.equal(found[:, 0], before[:, 0]), "layer 0 was corrected"
        # The blended deviation is rounded once and the sum once; sizes stay below 8.
        bound = 8 * torch.finfo(found.dtype).eps
        assert (found.double() - wanted).abs().max() <= bound


@ARITHMETIC
def test_no_covering_anchor_and_no_rows_mean_no_weights(arithmetic: Arithmetic) -> None:
    def weighed(tokens: int) -> object:
        return weigh(random_block(tokens, 1), None, bucket, arithmetic, None)

    bucket = Bucket()
    assert weighed(3) is None
    bucket.store("a", "1", random_block(3, 2), random_block(3, 3), random_block(2, 4))
    assert weighed(4) is None
    assert weighed(0) is None
    assert weighed(3) is not None


@ARITHMETIC
def test_empty_segments_survive_store_gate_and_growth(arithmetic: Arithmetic) -> None:
    bucket = Bucket()
    for number in range(3):
        bucket.store(f"e{number}", "1", random_block(0, 1), random_block(0, 2), random_block(2, 3))
    # Distances to nothing are 0, so the entropy is largest and only the most generous gate lets it through.
    gate = gated("agent_1", random_block(0, 1).values, bucket, 0.99, arithmetic)
    assert (gate.rows, gate.available, gate.distances, gate.why) == (0, 3, [0.0, 0.0, 0.0], "entropy")
    assert gated("agent_1", random_block(0, 1).values, bucket, 1.0, arithmetic).decision == "sharable"
    rows = random_block(4, 5)
    bucket.store("long", "1", rows, random_block(4, 6), random_block(2, 7))
    assert_kept(bucket.anchors[3].base, rows)
    assert len(bucket.covering(1)) == 1 and len(bucket.covering(0)) == 4


def test_an_anchor_cannot_change_its_length() -> None:
    bucket = Bucket()
    bucket.store("a", "1", random_block(3, 2), random_block(3, 3), random_block(2, 4))
    with pytest.raises(ValueError, match="'a' holds 3 rows, got 5"):
        bucket.store("a", "2", random_block(5, 2), random_block(5, 3), random_block(5, 4))


@some
@given(history=histories, size=sizes, seed=st.integers(0, 5))
def test_equal_histories_have_equal_hashes(history: list[Any], size: tuple[int, int], seed: int) -> None:
    first, second = pool_after(history, size), pool_after(history, size)
    assert first.hash() == second.hash() == first.hash()
    more = [*history, (seed, ("1",), 0)]
    assert pool_after(more, size).hash() != first.hash()


def pool_after(history: list[Any], size: tuple[int, int]) -> Pool:
    pool = Pool(*size)
    pool.buckets["question"], _ = play(history, *size)
    return pool


def small_pool(**changes: Any) -> Pool:
    """Two buckets with two anchors; every change is one fact that differs."""
    facts = {"key": "b", "consumer": "1", "tokens": 3, "count": 0, "name": "agent_1", "part": None, "reverse": False}
    facts |= changes
    blocks = [random_block(facts["tokens"], 11), random_block(facts["tokens"], 12), random_block(2, 13)]
    if facts["part"] is not None:
        number, field_name = facts["part"]
        getattr(blocks[number], field_name)[1, 2, 1, 3] += 1e-3
    pool = Pool()
    for key in ("b", "a") if facts["reverse"] else ("a", "b"):
        new = facts["key"] if key == "b" else key
        pool.bucket(facts["name"]).store(new, facts["consumer"], *blocks)
    pool.bucket("question").store("a", "1", *[random_block(2, seed) for seed in (21, 22, 23)])
    pool.bucket("question").anchors[0].count = facts["count"]
    return pool


def test_the_hash_tells_every_fact_of_the_pool_apart() -> None:
    parts = [{"part": (number, name)} for number in range(3) for name in ("keys", "values")]
    changes: list[dict[str, Any]] = [
        {}, {"key": "c"}, {"tokens": 4}, {"count": 1}, {"count": 2}, {"name": "agent_2"}, {"consumer": "2"},
        {"reverse": True}, *parts,
    ]  # fmt: skip
    hashes = [small_pool(**change).hash() for change in changes]
    assert len(set(hashes)) == len(changes)
    assert hashes == [small_pool(**change).hash() for change in changes]
    assert all(len(digest) == 16 and int(digest, 16) >= 0 for digest in hashes)


def test_a_second_consumer_and_an_eviction_change_the_hash() -> None:
    pool = Pool(capacity=2, window=1)
    seen = {pool.hash()}
    for number in range(4):
        for consumer in CONSUMERS:
            blocks = [random_block(3, 50), random_block(3, 51), random_block(AFTER[consumer], 52)]
            pool.bucket("question").store(f"q{number}", consumer, *blocks)
            assert pool.hash() not in seen
            seen.add(pool.hash())


# Frames: where a deviation's keys stand.


@ARITHMETIC
@some
@given(stored_at=st.integers(0, 500), served_at=st.integers(0, 500), seed=st.integers(0, 20))
def test_a_canonical_anchor_serves_its_deviation_at_any_position(
    arithmetic: Arithmetic, stored_at: int, served_at: int, seed: int
) -> None:
    """One anchor weighs 1, so base plus deviation is the anchor's exact rows, moved."""
    real = random_block(4, seed, origin=stored_at)
    base = random_block(4, seed + 1, origin=7)
    base.keys[:, 0], base.values[:, 0] = real.moved(7, FREQUENCIES).keys[:, 0], real.values[:, 0]
    bucket = Bucket()
    at_0, real_at_0 = base.moved(0, FREQUENCIES), real.moved(0, FREQUENCIES)
    delta = Block(real_at_0.keys - at_0.keys, real_at_0.values - at_0.values, 0)
    bucket.store("a", "1", at_0, delta, delta)
    weights = weigh(base, turn(base.origin, 0, FREQUENCIES), bucket, arithmetic, None)
    assert weights is not None
    served = predicted(base, "1", "segment", weights, arithmetic, served_at, FREQUENCIES, frame=0)
    expected = real.moved(served_at, FREQUENCIES)
    assert served.origin == expected.origin == served_at
    torch.testing.assert_close(served.keys, expected.keys, rtol=0, atol=1e-3)
    torch.testing.assert_close(served.values, expected.values, rtol=0, atol=1e-5)


# The gate's own rules, beyond the released cases.


@ARITHMETIC
@some
@given(
    lengths=st.lists(st.integers(0, 8), max_size=8), tokens=st.integers(0, 8), gamma=st.sampled_from([0.0, 0.5, 1.0])
)
def test_the_gate_calls_new_what_the_rules_call_new(
    arithmetic: Arithmetic, lengths: list[int], tokens: int, gamma: float
) -> None:
    bucket = Bucket()
    for number, length in enumerate(lengths):
        bucket.store(f"a{number}", "1", *[random_block(length, number)] * 2, random_block(2, 1))
    candidate = random_block(tokens, 99)
    gate = gated("question", candidate.values, bucket, gamma, arithmetic)
    covering = [number for number, length in enumerate(lengths) if length >= tokens]
    assert (gate.anchors, gate.available, gate.rows) == (len(lengths), len(covering), tokens)
    if len(lengths) <= 1:
        assert (gate.decision, gate.why) == ("new", "pool")
    elif len(covering) <= 1:
        assert (gate.decision, gate.why) == ("new", "length")
    else:
        assert gate.entropy is not None and gate.limit is not None and gate.distances is not None
        expected = [
            float((random_block(lengths[number], number).values[:tokens] - candidate.values).norm())
            for number in covering
        ]
        assert gate.distances == pytest.approx(expected, abs=1e-4)
        assert gate.decision == ("sharable" if gate.entropy <= gate.limit or gamma == 1.0 else "new")
    counted = [number for number, anchor in enumerate(bucket.anchors) if anchor.count]
    assert set(counted) <= set(covering)
    assert bool(counted) == (gate.decision == "sharable")


@some
@given(st.lists(st.floats(0, 30), min_size=2, max_size=8))
def test_the_nucleus_is_the_released_one(distances: list[float]) -> None:
    similarity = torch.softmax(-torch.tensor(distances), dim=0)
    chosen = activated(similarity)
    order = similarity.argsort(descending=True).tolist()
    total, inside = 0.0, 0
    for index in order:
        total += float(similarity[index])
        inside += total < 0.9 - 1e-6
    near = any(abs(float(part) - 0.9) < 1e-5 for part in similarity[order].cumsum(0))
    if not near:
        assert chosen == order[: inside or len(order)]


# Blocks and caches.


@some
@given(layers=st.integers(1, 3), heads=st.integers(1, 3), start=st.integers(0, 5), tokens=st.integers(0, 5))
def test_a_block_read_from_a_cache_is_a_copy_and_writes_back(layers: int, heads: int, start: int, tokens: int) -> None:
    cache = SlotCache(layers, heads, DIM, 10, torch.float32, "cpu")
    cache.keys.normal_()
    cache.values.normal_()
    keys = cache.keys.clone()
    block = read(cache, start, start + tokens)
    assert (block.tokens, block.origin) == (tokens, start)
    other = SlotCache(layers, heads, DIM, 10, torch.float32, "cpu")
    write(other, start, block)
    assert other.length == start + tokens
    assert torch.equal(other.keys[:, :, :, start : start + tokens], cache.keys[:, :, :, start : start + tokens])
    assert torch.equal(other.values[:, :, :, start : start + tokens], cache.values[:, :, :, start : start + tokens])
    assert not other.keys[:, :, :, :start].any() and not other.keys[:, :, :, start + tokens :].any()
    block.keys.zero_()
    block.values.zero_()
    assert torch.equal(cache.keys, keys)
