"""Repairs to test on: prompts of five segments on small random models, assembled as reuse without anchors does it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from small_models import ARCHITECTURES, Twins, build, config_of, some_ids, twins, wrap
from torch import Tensor

from bcrbench.engine.attention import NAME
from bcrbench.engine.cache import SlotCache
from bcrbench.engine.model import Runtime
from bcrbench.repair.selectors.base import Selector
from bcrbench.repair.view import RepairView
from bcrbench.reuse.block import read, write
from bcrbench.reuse.segments import Prompt, Segment, join

# Two orders of adding the same float32 products.
CLOSE = {"rtol": 1e-4, "atol": 1e-4}
LENGTHS = (10, 14, 5, 9, 4)  # fixed_0, shared, fixed_1, shared, fixed_2
CACHED = sum(LENGTHS) - 1
SLACK = 40  # slots after the prompt, for a draft and a generation


@cache
def deep(name: str, layers: int = 4) -> Twins:
    """Twins with more than two layers, for what is summed over them."""
    seed = ARCHITECTURES.index(name)
    config = config_of(name, num_hidden_layers=layers)
    return Twins(
        runtime=wrap(build(config, NAME, seed=seed)),
        reference=build(config_of(name, num_hidden_layers=layers), "eager", seed=seed),
    )


def some_prompt(seed: int = 0) -> Prompt:
    ids = some_ids(sum(LENGTHS), seed)
    pieces, start = [], 0
    for length in LENGTHS:
        pieces.append(ids[start : start + length])
        start += length
    return join(pieces[0::2], ["question", "peer"], pieces[1::2])


def prefilled(runtime: Runtime, ids: list[int], capacity: int | None = None) -> SlotCache:
    cache = runtime.new_cache(capacity or len(ids))
    runtime.run(ids, range(len(ids)), cache)
    return cache


def assembled(runtime: Runtime, prompt: Prompt) -> SlotCache:
    """An exact first segment, then every segment prefilled alone and rotated into place; garbage in the free slots."""
    served = len(prompt.ids) - 1
    cache = prefilled(runtime, prompt.ids[: prompt.segments[0].end], len(prompt.ids) + SLACK)
    for segment in prompt.segments[1:]:
        content = prompt.ids[segment.start : min(segment.end, served)]
        block = read(prefilled(runtime, content), 0, len(content))
        write(cache, segment.start, block.moved(segment.start, runtime.inv_freq))
    assert cache.length == served
    fill = torch.Generator().manual_seed(0)
    cache.keys[:, :, :, served:].normal_(generator=fill)
    cache.values[:, :, :, served:].normal_(generator=fill)
    return cache


def some_view(runtime: Runtime | None = None, seed: int = 0, index: int = 0, coin: int = 0, k: int = 2) -> RepairView:
    runtime = runtime or twins("llama").runtime
    prompt = some_prompt(seed)
    exact = [j < prompt.segments[0].end for j in range(CACHED)]
    cache = assembled(runtime, prompt)
    return RepairView(runtime, cache, prompt.ids, prompt.segments, exact, index, coin, draft_tokens=k)


def exact_view(runtime: Runtime, seed: int = 0, k: int = 2) -> RepairView:
    """A view whose cache is a dense one: what scores can be compared with other code on."""
    view = some_view(runtime, seed, k=k)
    for ours, dense in ((view.cache.keys, view.dense.keys), (view.cache.values, view.dense.values)):
        ours[:, :, :, :CACHED] = dense[:, :, :, :CACHED]
    return view


def bare_view(exact: list[bool], seed: int = 0, index: int = 0) -> RepairView:
    """A view for layouts and coins, which look at no model."""
    nothing: Any = None
    ids = [0] * (len(exact) + 1)
    return RepairView(nothing, nothing, ids, [Segment("fixed_0", False, 0, len(ids))], exact, index, seed)


@dataclass(frozen=True)
class Given(Selector):
    """Scores as given."""

    values: list[float]

    def scores(self, view: RepairView) -> Tensor:
        return torch.tensor(self.values)


@dataclass
class Snapshot:
    """A cache's bytes: whole tensors, free slots included, and its length."""

    keys: Tensor
    values: Tensor
    length: int

    @classmethod
    def of(cls, cache: SlotCache) -> Snapshot:
        return cls(cache.keys.clone(), cache.values.clone(), cache.length)

    def check(self, cache: SlotCache) -> None:
        assert cache.length == self.length
        assert torch.equal(cache.keys, self.keys)
        assert torch.equal(cache.values, self.values)
