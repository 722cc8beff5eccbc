"""The closed formulas against counts: of the products that torch sees, and of the numbers that tensors hold."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from small_models import ARCHITECTURES, some_ids, twins
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from bcrbench.bench.arithmetic import Shape, assembly, draft_scores, gate, model_pass, single_rows
from bcrbench.bench.pool import FullPool
from bcrbench.bench.workload import Workload
from bcrbench.engine.attention import Rows
from bcrbench.engine.model import Runtime

CASES = {"prompt": list(range(40)), "scattered": [3, 4, 5, 17, 30, 39], "one": [39]}


def by_products(query: Tensor, key: Tensor, value: Tensor, rows: Rows, scale: float) -> Tensor:
    """Attention of each row alone over the keys that it may see, as two plain products that torch counts."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1)[0], value.repeat_interleave(group, 1)[0]
    done = []
    for place, position in enumerate(rows.listed):
        seen = slice(0, position + 1)
        weights = torch.softmax(torch.bmm(query[0, :, place : place + 1], key[:, seen].mT) * scale, -1)
        done.append(torch.bmm(weights, value[:, seen]))
    return torch.cat(done, 1)[None]


def counted(runtime: Runtime, rows: list[int]) -> float:
    cache = runtime.new_cache(64)
    ids = some_ids(64)
    runtime.run(ids[:40], range(40), cache)
    with FlopCounterMode(display=False) as counter:
        runtime.run([ids[row] for row in rows], rows, cache, kernel=by_products)
    return float(counter.get_total_flops())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_flops_of_a_pass_are_those_that_torch_counts(name: str, case: str) -> None:
    runtime = twins(name).runtime
    shape = Shape.of(runtime.model.config, 4)
    assert model_pass(shape, "x", CASES[case]).flops == counted(runtime, CASES[case])


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_bytes_of_a_pass_are_its_weights_and_its_rows(name: str) -> None:
    runtime = twins(name).runtime
    shape = Shape.of(runtime.model.config, 4)
    linear = [m.weight for m in runtime.model.modules() if isinstance(m, torch.nn.Linear)]
    weights = sum(weight.numel() for weight in linear) * 4
    cache = runtime.new_cache(1)
    row = (cache.keys.numel() + cache.values.numel()) * 4
    embedded = runtime.model.get_input_embeddings().weight.shape[1] * 4
    assert shape.row == row
    assert model_pass(shape, "x", [3, 9]).bytes == weights + 2 * embedded + (10 + 2) * row


def test_single_rows_are_passes_one_after_another() -> None:
    shape = Shape.of(twins("llama").runtime.model.config, 2)
    steps = [model_pass(shape, "draft", [7 + step]) for step in range(3)]
    found = single_rows(shape, "draft", 7, 3)
    assert (found.flops, found.bytes) == (sum(s.flops for s in steps), sum(s.bytes for s in steps))


def held(tensors: Iterable[Tensor], without_first: int = 0) -> float:
    """Bytes of tensors [tokens, features], less those of the first layer where asked."""
    return float(sum(tensor[:, without_first:].numel() * tensor.element_size() for tensor in tensors))


def test_a_reused_call_reads_what_the_pool_holds_and_writes_its_rows() -> None:
    anchors, shared, after = 5, 24, 6
    runtime = twins("llama").runtime
    full = FullPool(runtime, Workload("x", (8, after), (shared,)), anchors)
    shape = Shape.of(runtime.model.config, 4)
    bucket = full.shared.pool.bucket("question")
    assert len(bucket.anchors) == anchors
    first_layer = shape.kv_heads * shape.head_dim
    values = held(anchor.base.values for anchor in bucket.anchors)
    assert gate(shape, shared, anchors).bytes == values + shared * shape.row / 2
    kept = [part for anchor in bucket.anchors for part in vars(anchor.deviations["1"]).values()]
    deviations = [tensor for stored in kept for tensor in (stored.keys, stored.values)]
    read = held(anchor.base.keys for anchor in bucket.anchors) + held(deviations, first_layer)
    rows = (shared + after) * shape.row
    assert assembly(shape, shared, after, anchors).bytes == read + 2 * rows


def test_the_drafts_scores_read_keys_of_all_layers_but_the_first() -> None:
    runtime = twins("qwen3").runtime
    shape = Shape.of(runtime.model.config, 4)
    cache = runtime.new_cache(30)
    found = draft_scores(shape, 30, 2)
    assert found.bytes == cache.keys[1:].numel() * 4
    queries = torch.zeros(runtime.layers - 1, shape.heads, 2, shape.head_dim)
    with FlopCounterMode(display=False) as counter:
        torch.matmul(queries, torch.zeros(runtime.layers - 1, shape.heads, shape.head_dim, 30))
    assert found.flops == counter.get_total_flops()
