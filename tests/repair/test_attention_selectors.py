"""`draft` and `query` against the model's own attention, and what they leave behind (paper Alg. 2, section 3)."""

from __future__ import annotations

import random

import pytest
import torch
from repair_views import CACHED, CLOSE, Snapshot, deep, exact_view, some_view
from torch import Tensor

from bcrbench.engine.cache import SlotCache
from bcrbench.errors import UserError
from bcrbench.repair.selectors.base import Selector
from bcrbench.repair.selectors.draft import DraftAttention
from bcrbench.repair.selectors.query import QueryAttention
from bcrbench.repair.view import RepairView

NAMES = ("llama", "qwen2")
BOTH = [DraftAttention(), QueryAttention()]


@torch.inference_mode()
def own_attention(name: str, ids: list[int], rows: range) -> Tensor:
    """Scores by the untouched model: its eager attention of `rows`, cut to the cached columns, each row to sum 1."""
    layers = deep(name).reference(input_ids=torch.tensor([ids]), output_attentions=True).attentions
    total = torch.zeros(CACHED)
    for layer in layers[1:]:
        paid = layer[0, :, rows.start : rows.stop, :CACHED]
        total += (paid / paid.sum(-1, keepdim=True)).mean(dim=(0, 1))
    return total


def by_hand(view: RepairView, keys: Tensor, queries: list[Tensor], positions: range) -> Tensor:
    """The rule of section 3 written out: one query row, one head, one layer at a time."""
    heads = queries[0].shape[0]
    group = heads // view.runtime.kv_heads
    total = torch.zeros(CACHED, dtype=torch.float64)
    for layer in range(1, view.runtime.layers):
        for head in range(heads):
            for step, position in enumerate(positions):
                seen = keys[layer, 0, head // group, : min(position + 1, CACHED)].double()
                logits = seen @ queries[layer][head, step].double() / view.runtime.head_dim**0.5
                total[: len(seen)] += torch.softmax(logits, 0) / (heads * len(positions))
    return total.float()


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("name", NAMES)
def test_draft_equals_the_models_own_attention_on_an_exact_cache(name: str, k: int) -> None:
    view = exact_view(deep(name).runtime, k=k)
    expected = own_attention(name, view.ids + view.draft.ids[: k - 1], range(CACHED, CACHED + k))
    torch.testing.assert_close(DraftAttention().scores(view), expected, **CLOSE)


@pytest.mark.parametrize("m", [1, 3, 16, CACHED + 1, 500])
@pytest.mark.parametrize("name", NAMES)
def test_query_equals_the_models_own_attention_on_an_exact_cache(name: str, m: int) -> None:
    view = exact_view(deep(name).runtime)
    expected = own_attention(name, view.ids, range(max(0, CACHED + 1 - m), CACHED + 1))
    torch.testing.assert_close(QueryAttention(m=m).scores(view), expected, **CLOSE)


@pytest.mark.parametrize("name", NAMES)
def test_draft_scores_the_predicted_keys(name: str) -> None:
    view = some_view(deep(name).runtime)
    scores = DraftAttention().scores(view)
    positions = range(CACHED, CACHED + 2)
    torch.testing.assert_close(scores, by_hand(view, view.cache.keys, view.draft.queries, positions), **CLOSE)
    assert not torch.allclose(scores, by_hand(view, view.dense.keys, view.draft.queries, positions), **CLOSE)


@pytest.mark.parametrize("name", NAMES)
def test_query_scores_the_predicted_keys(name: str) -> None:
    """Queries as decoding the last rows one by one on a copy gives them; keys as they were served."""
    view = some_view(deep(name).runtime)
    rows = range(CACHED - 5, CACHED + 1)
    copy = SlotCache(view.runtime.layers, view.runtime.kv_heads, view.runtime.head_dim, 60, torch.float32, "cpu")
    copy.keys[:, :, :, :CACHED] = view.cache.keys[:, :, :, :CACHED]
    copy.values[:, :, :, :CACHED] = view.cache.values[:, :, :, :CACHED]
    copy.length = CACHED
    steps: list[list[Tensor]] = []
    for row in rows:
        steps.append([])
        view.runtime.run([view.ids[row]], [row], copy, queries=steps[-1])
    queries = [torch.cat(layer, dim=1) for layer in zip(*steps)]
    expected = by_hand(view, view.cache.keys, queries, rows)
    torch.testing.assert_close(QueryAttention(m=6).scores(view), expected, **CLOSE)


@pytest.mark.parametrize("selector", BOTH, ids=["draft", "query"])
@pytest.mark.parametrize("name", NAMES)
def test_scores_are_the_softmax_mass_of_all_layers_but_the_first(name: str, selector: Selector) -> None:
    for view in (some_view(deep(name).runtime), exact_view(deep(name).runtime)):
        scores = selector.scores(view)
        assert scores.dtype == torch.float32
        assert bool((scores >= 0).all())
        assert float(scores.sum()) == pytest.approx(view.runtime.layers - 1, rel=1e-5)


@pytest.mark.parametrize("selector", [*BOTH, QueryAttention(m=500)], ids=["draft", "query", "query-all"])
@pytest.mark.parametrize("name", NAMES)
def test_scoring_leaves_cache_length_and_generators_untouched(name: str, selector: Selector) -> None:
    view = some_view(deep(name).runtime, k=5)
    before = Snapshot.of(view.cache)
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    first = selector.scores(view)
    before.check(view.cache)
    assert torch.equal(selector.scores(view), first)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert random.getstate() == python_state


def test_a_query_pass_that_fails_leaves_the_cache_untouched() -> None:
    view = some_view(deep("llama").runtime)
    before = Snapshot.of(view.cache)
    view.ids[-1] = 10**9  # no such token
    with pytest.raises(IndexError):
        QueryAttention().scores(view)
    before.check(view.cache)


def test_query_needs_a_row() -> None:
    with pytest.raises(UserError, match="m=0"):
        QueryAttention(m=0)
