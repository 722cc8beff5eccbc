"""Steps with tensors that stand still equal the ordinary way of running one row after another."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import ARCHITECTURES, build, config_of, some_ids, twins
from torch import Tensor

from bcrbench.engine import steps
from bcrbench.engine.attention import NAME
from bcrbench.engine.byte_tokenizer import byte_tokenizer
from bcrbench.engine.cache import SlotCache
from bcrbench.engine.choice import pick_kernel
from bcrbench.engine.decode import choose, chosen, greedy, most_likely
from bcrbench.engine.model import Runtime, Source
from bcrbench.engine.steps import EAGER, GRAPH, Graph, StaticStep, Stepping, stepper
from bcrbench.errors import RunFailed

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
few = settings(max_examples=30, deadline=None)


def prefilled(runtime: Runtime, ids: list[int], capacity: int) -> SlotCache:
    cache = runtime.new_cache(capacity)
    runtime.run(ids, range(len(ids)), cache)
    cache.keys[:, :, :, len(ids) :].normal_(generator=torch.Generator().manual_seed(0))  # what nobody may look at
    cache.values[:, :, :, len(ids) :].normal_(generator=torch.Generator().manual_seed(1))
    return cache


@few
@given(
    name=st.sampled_from(ARCHITECTURES),
    count=st.integers(1, 40),
    more=st.integers(1, 5),
    room=st.integers(0, 30),
    seed=st.integers(0, 5),
)
def test_a_static_step_equals_a_pass_of_one_row(name: str, count: int, more: int, room: int, seed: int) -> None:
    runtime = twins(name).runtime
    ids = some_ids(count + more, seed)
    bucket = count + more + room
    ours, plain = prefilled(runtime, ids[:count], bucket), prefilled(runtime, ids[:count], bucket)
    static = StaticStep(runtime, ours, bucket)
    for place in range(count, count + more):
        static.set(torch.tensor(ids[place : place + 1]), place)
        static.run()
        recorded: list[Tensor] = []
        expected = runtime.run([ids[place]], [place], plain, queries=recorded)
        torch.testing.assert_close(static.logits, expected, **CLOSE)
        torch.testing.assert_close(static.queries, torch.stack(recorded)[:, :, 0], **CLOSE)
    torch.testing.assert_close(ours.keys, plain.keys, **CLOSE)
    torch.testing.assert_close(ours.values, plain.values, **CLOSE)
    after = count + more
    assert torch.equal(ours.keys[:, :, :, after:], plain.keys[:, :, :, after:]), "no other slot is written"


class _Replayed:
    """A graph without CUDA: its step is run again."""

    def __init__(self, step: StaticStep) -> None:
        self.step = step

    def __call__(self, token: Tensor, position: int) -> Tensor:
        self.step.set(token, position)
        self.step.run()
        return self.step.logits


@pytest.mark.parametrize("bucket", [8, 32, 1024])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_decoding_by_graphs_gives_the_tokens_and_rows_of_eager_decoding(
    name: str, bucket: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = twins(name).runtime
    ids = some_ids(29, 4)
    made: list[int] = []

    def decode() -> tuple[list[int], SlotCache]:
        cache = runtime.new_cache(40)
        first = most_likely(runtime.run(ids, range(29), cache))
        return greedy(runtime, cache, [first], 29, 30, frozenset()).ids, cache

    expected, plain = decode()
    monkeypatch.setattr(steps, "BUCKET", bucket)
    monkeypatch.setattr(steps, "Graph", lambda step: made.append(step.bucket) or _Replayed(step))
    monkeypatch.setattr(runtime, "stepping", Stepping(GRAPH))
    found, cache = decode()
    assert found == expected
    assert made and cache.length == plain.length == 58
    torch.testing.assert_close(cache.keys[:, :, :, :58], plain.keys[:, :, :, :58], **CLOSE)
    assert len(cache.graphs) <= len(made)


def test_slots_that_move_take_their_graphs_with_them() -> None:
    cache = twins("llama").runtime.new_cache(8)
    cache.graphs[8] = object()
    cache.reserve(8)
    assert cache.graphs
    cache.reserve(9)
    assert not cache.graphs


@pytest.mark.parametrize("stops", [frozenset(), None])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_logit_that_is_no_number_ends_decoding(
    stops: frozenset[int] | None, bad: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = twins("llama").runtime
    cache = prefilled(runtime, some_ids(6), 20)
    step = stepper(runtime, cache)

    def spoiled(token: Tensor, position: int, queries: Tensor | None = None) -> Tensor:
        logits = step(token, position, queries)
        if position == 8:
            logits[7] = bad
        return logits

    monkeypatch.setattr("bcrbench.engine.decode.stepper", lambda *_: spoiled)
    with pytest.raises(RunFailed, match="expected finite ones"):
        greedy(runtime, cache, [1], 6, 8, stops)


@given(st.lists(st.floats(-9, 9, width=32), min_size=1, max_size=20))
def test_the_chosen_token_is_the_most_likely_one(values: list[float]) -> None:
    logits = torch.tensor(values)
    token, told = choose(logits)
    assert chosen(int(told)) == int(token) == most_likely(logits)


def test_a_cpu_steps_eagerly() -> None:
    runtime = twins("llama").runtime
    runtime.warm_up()
    assert runtime.stepping == Stepping(EAGER)
    assert runtime.identity()["decode"] == "eager"


@pytest.mark.gpu
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_captured_step_equals_an_eager_one(name: str) -> None:
    device = torch.device("cuda")
    model = build(config_of(name), NAME).to(device)
    runtime = Runtime(model, byte_tokenizer(), device, model.dtype, pick_kernel("auto", device), Source("test", "test"))
    cache = runtime.new_cache(64)
    runtime.run(some_ids(30), range(30), cache)
    before = cache.keys.clone()
    graph = Graph(StaticStep(runtime, cache, 64))
    assert torch.equal(cache.keys, before)
    for place in (30, 31):
        found = graph(torch.tensor([5], device=device), place).clone()
        torch.testing.assert_close(found, runtime.run([5], [place], cache), rtol=1e-3, atol=1e-3)
