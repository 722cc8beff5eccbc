"""Layers run by hand equal transformers' own forward, and the last one is run for no row that nobody asks for."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import ARCHITECTURES, Twins, build, config_of, some_ids, wrap
from torch import Tensor

from bcrbench.engine.attention import NAME
from bcrbench.engine.layers import lay_out
from bcrbench.engine.model import Runtime, weights_hash

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
LAYERS = 3
few = settings(max_examples=40, deadline=None)
architectures = st.sampled_from(ARCHITECTURES)


@cache
def deep(name: str) -> Twins:
    config = config_of(name, num_hidden_layers=LAYERS)
    return Twins(wrap(build(config, NAME)), build(config_of(name, num_hidden_layers=LAYERS), "eager"))


@cache
def alone(name: str) -> Twins:
    """One layer, which is the first and the last."""
    config = config_of(name, num_hidden_layers=1)
    return Twins(wrap(build(config, NAME)), build(config_of(name, num_hidden_layers=1), "eager"))


@torch.inference_mode()
def own_queries(pair: Twins, ids: list[int]) -> list[Tensor]:
    """Queries [heads, n, head_dim] after rotation, by transformers' modules and its own rotation."""
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    model = pair.reference.model
    states = pair.reference(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
    cos, sin = model.rotary_emb(states[0], position_ids=torch.arange(len(ids))[None])
    found = []
    for layer, entering in zip(model.layers, states):
        attention = layer.self_attn
        query = attention.q_proj(layer.input_layernorm(entering)).view(1, len(ids), -1, attention.head_dim)
        query = attention.q_norm(query) if hasattr(attention, "q_norm") else query
        found.append(apply_rotary_pos_emb(query.transpose(1, 2), query.transpose(1, 2), cos, sin)[0][0])
    return found


def split(chosen: list[bool]) -> tuple[list[int], list[int]]:
    """Rows run in a second pass, the last one among them, and all rows."""
    return sorted({*(row for row, again in enumerate(chosen) if again), len(chosen) - 1}), list(range(len(chosen)))


@few
@given(name=architectures, pair=st.sampled_from([deep, alone]), chosen=st.lists(st.booleans(), min_size=1, max_size=40))
def test_any_rows_equal_the_own_forward(name: str, pair: type[Twins], chosen: list[bool]) -> None:
    twins = pair(name)
    rows, everything = split(chosen)
    ids = some_ids(len(chosen), len(rows))
    slots = twins.runtime.new_cache(len(ids))
    twins.runtime.run(ids, everything, slots)
    slots.keys[:, :, :, rows] = 0
    slots.values[:, :, :, rows] = 0
    logits = twins.runtime.run([ids[row] for row in rows], rows, slots)
    with torch.inference_mode():
        out = twins.reference(input_ids=torch.tensor([ids]), use_cache=True)
    torch.testing.assert_close(logits, out.logits[0, -1], **CLOSE)
    torch.testing.assert_close(slots.keys, torch.stack([layer.keys for layer in out.past_key_values.layers]), **CLOSE)
    torch.testing.assert_close(
        slots.values, torch.stack([layer.values for layer in out.past_key_values.layers]), **CLOSE
    )


@few
@given(name=architectures, count=st.integers(1, 30), last=st.integers(1, 8))
def test_queries_are_recorded_for_all_rows_in_all_layers(name: str, count: int, last: int) -> None:
    pair = deep(name)
    ids = some_ids(count, last)
    slots = pair.runtime.new_cache(count)
    plain = pair.runtime.run(ids, range(count), slots)
    rows = range(max(0, count - last), count)
    recorded: list[Tensor] = []
    logits = pair.runtime.run(ids[rows.start :], rows, slots, queries=recorded)
    assert len(recorded) == LAYERS
    for ours, own in zip(recorded, own_queries(pair, ids), strict=True):
        torch.testing.assert_close(ours, own[:, rows.start :], **CLOSE)
    torch.testing.assert_close(logits, plain, **CLOSE)


@pytest.mark.parametrize("recording", [False, True])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_last_layer_is_run_for_the_last_row_alone(name: str, recording: bool) -> None:
    runtime = deep(name).runtime
    seen: dict[str, list[int]] = {part: [] for part in ("q_proj", "k_proj", "v_proj", "o_proj", "mlp")}
    hooks = [
        module.register_forward_hook(lambda _, given, __, part=part: seen[part].append(given[0].shape[0]))
        for layer in runtime.model.model.layers
        for part, module in (("mlp", layer.mlp.down_proj), *((p, getattr(layer.self_attn, p)) for p in list(seen)[:4]))
    ]
    runtime.run(some_ids(9), range(9), runtime.new_cache(9), queries=[] if recording else None)
    for hook in hooks:
        hook.remove()
    everywhere, last = [9] * LAYERS, [*[9] * (LAYERS - 1), 1]
    asking = everywhere if recording else last
    assert seen == {"q_proj": asking, "k_proj": everywhere, "v_proj": everywhere, "o_proj": last, "mlp": last}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_pass_is_the_same_bits_each_time(name: str) -> None:
    runtime = deep(name).runtime

    def both(runtime: Runtime) -> list[Tensor]:
        slots = runtime.new_cache(30)
        first = runtime.run(some_ids(30), range(30), slots)
        return [first, runtime.run(some_ids(5, 1), [2, 3, 9, 20, 29], slots), slots.keys, slots.values]

    assert all(torch.equal(one, two) for one, two in zip(both(runtime), both(runtime), strict=True))


@pytest.mark.parametrize("activation", ["silu", "gelu", "relu"])
def test_an_activation_that_a_configuration_names_is_the_one_that_runs(activation: str) -> None:
    config = config_of("llama", hidden_act=activation)
    runtime, reference = wrap(build(config, NAME)), build(config_of("llama", hidden_act=activation), "eager")
    ids = some_ids(12)
    with torch.inference_mode():
        expected = reference(input_ids=torch.tensor([ids])).logits[0, -1]
    torch.testing.assert_close(runtime.run(ids, range(12), runtime.new_cache(12)), expected, **CLOSE)


def test_weights_laid_out_for_one_row_keep_their_numbers_names_and_hash() -> None:
    plain, laid = build(config_of("qwen2"), NAME), build(config_of("qwen2"), NAME)
    lay_out(laid)
    wide = laid.model.layers[0].mlp.up_proj.weight
    assert wide.stride() == (1, wide.shape[0]), "by columns"
    for (name, one), (other, two) in zip(plain.state_dict().items(), laid.state_dict().items(), strict=True):
        assert name == other and torch.equal(one, two)
    assert weights_hash(plain) == weights_hash(laid)
    ids = some_ids(20)
    first, second = (runtime.run(ids, range(20), runtime.new_cache(20)) for runtime in (wrap(plain), wrap(laid)))
    torch.testing.assert_close(first, second, **CLOSE)
