"""Moving keys: rotations undo each other, compose, and land where the model would have put the key."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import ARCHITECTURES, build, config_of, some_ids, twins, wrap
from torch import Tensor

from bcrbench.engine.attention import NAME
from bcrbench.engine.model import Runtime
from bcrbench.engine.rope import rotate

TYPES = [torch.float32, torch.bfloat16]
MOVES = [(0, 1), (0, 300), (300, -300), (257, -256), (40, 1000), (1000, -37), (63, 2)]

few = settings(max_examples=60, deadline=None)
deltas = st.integers(-2000, 2000)


def random_keys(seed: int, dtype: torch.dtype, dim: int = 16) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(5, 2, 3, dim, generator=generator).to(dtype)


def frequencies(dim: int = 16) -> Tensor:
    return 10000.0 ** (-torch.arange(0, dim, 2) / dim)


def lengths(keys: Tensor) -> Tensor:
    """Length of the pair that each number is rotated in: what a rotation's rounding is relative to."""
    low, high = keys.float().chunk(2, dim=-1)
    pair = torch.hypot(low, high)
    return torch.cat((pair, pair), dim=-1)


def angle_error(*positions: int) -> float:
    """Radians by which float32 can miss the angles of these positions: each is rounded to 24 bits, twice."""
    return 2 * sum(abs(position) for position in positions) * torch.finfo(torch.float32).eps


@few
@given(delta=deltas, seed=st.integers(0, 9), dtype=st.sampled_from(TYPES))
def test_there_and_back_is_the_identity(delta: int, seed: int, dtype: torch.dtype) -> None:
    keys = random_keys(seed, dtype)
    back = rotate(rotate(keys, delta, frequencies()), -delta, frequencies())
    assert back.dtype == dtype and back.shape == keys.shape
    # cos and sin are the same numbers both ways, so no angle error: only the casts remain.
    bound = (3 * torch.finfo(dtype).eps) * lengths(keys)
    assert ((back.float() - keys.float()).abs() <= bound).all()


@few
@given(first=deltas, second=deltas, seed=st.integers(0, 9), dtype=st.sampled_from(TYPES))
def test_rotations_compose(first: int, second: int, seed: int, dtype: torch.dtype) -> None:
    keys = random_keys(seed, dtype)
    steps = rotate(rotate(keys, first, frequencies()), second, frequencies())
    once = rotate(keys, first + second, frequencies())
    bound = (4 * torch.finfo(dtype).eps + angle_error(first, second, first + second)) * lengths(keys)
    assert ((steps.float() - once.float()).abs() <= bound).all()


@few
@given(delta=deltas.filter(bool), seed=st.integers(0, 9))
def test_a_rotation_keeps_lengths_and_moves_something(delta: int, seed: int) -> None:
    keys = random_keys(seed, torch.float32)
    moved = rotate(keys, delta, frequencies())
    torch.testing.assert_close(lengths(moved), lengths(keys), rtol=1e-5, atol=1e-6)
    assert (moved - keys).abs().max() > 1e-3


@few
@given(delta=deltas, dtype=st.sampled_from([torch.bfloat16, torch.float16]))
def test_half_precision_is_cast_once_at_the_end(delta: int, dtype: torch.dtype) -> None:
    keys = random_keys(3, dtype)
    assert torch.equal(rotate(keys, delta, frequencies()), rotate(keys.float(), delta, frequencies()).to(dtype))


def test_no_delta_changes_nothing_and_any_delta_leaves_its_input_alone() -> None:
    keys = random_keys(0, torch.float32)
    kept = keys.clone()
    assert torch.equal(rotate(keys, 0, frequencies()), keys)
    rotate(keys, 9, frequencies())
    assert torch.equal(keys, kept)


def test_no_rows_stay_no_rows() -> None:
    assert rotate(torch.empty(0, 2, 3, 16), 5, frequencies()).shape == (0, 2, 3, 16)


def layer_0_keys(runtime: Runtime, ids: list[int], start: int) -> Tensor:
    """Keys [tokens, heads, dim] that the model computes in layer 0 at positions start.. (no row there sees another)."""
    cache = runtime.new_cache(start + len(ids))
    cache.length = start
    runtime.run(ids, range(start, start + len(ids)), cache)
    return cache.keys[0, 0, :, start:].transpose(0, 1)


@pytest.mark.parametrize(("start", "delta"), MOVES)
@pytest.mark.parametrize("dtype", TYPES, ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_rotating_equals_having_computed_there(name: str, dtype: torch.dtype, start: int, delta: int) -> None:
    runtime = twins(name, dtype).runtime
    check_move(runtime, start, delta)


def check_move(runtime: Runtime, start: int, delta: int) -> None:
    ids = some_ids(20)
    here, there = layer_0_keys(runtime, ids, start), layer_0_keys(runtime, ids, start + delta)
    moved = rotate(here, delta, runtime.inv_freq)
    assert moved.dtype == runtime.dtype
    assert (there.float() - here.float()).abs().max() > 0.1, "the two places do not differ"
    # transformers rounds cos, sin, both products and their sum: 3 units of eps / 2 a number, in here (where the
    # rotation mixes two of them: times the root of 2) and in there; the moved key is rounded once more.
    rounding = (3 * 2**0.5 + 3 + 1) / 2 * torch.finfo(runtime.dtype).eps
    last = max(start, start + delta) + len(ids)
    bound = (rounding + angle_error(last, last, delta)) * lengths(there) * 1.01
    error = (moved.float() - there.float()).abs()
    assert (error <= bound).all(), float((error / bound).max())


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_wrong_delta_does_not_pass(name: str) -> None:
    runtime = twins(name, torch.bfloat16).runtime
    ids = some_ids(20)
    moved = rotate(layer_0_keys(runtime, ids, 30), 11, runtime.inv_freq)
    there = layer_0_keys(runtime, ids, 40)
    assert ((moved - there).float().abs() > 8 * torch.finfo(torch.bfloat16).eps * lengths(there)).any()


def test_llama3_scaling_changes_the_frequencies_that_rotation_uses() -> None:
    plain, scaled = twins("llama").runtime.inv_freq, twins("llama3").runtime.inv_freq
    assert plain.dtype == scaled.dtype == torch.float32
    assert (scaled < plain / 4).any() and torch.equal(scaled[0], plain[0])
    keys = layer_0_keys(twins("llama3").runtime, some_ids(20), 0)
    right, wrong = rotate(keys, 200, scaled), rotate(keys, 200, plain)
    assert (right - wrong).abs().max() > 0.1


@pytest.mark.parametrize("dtype", TYPES, ids=["float32", "bfloat16"])
@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
        {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64},
    ],
    ids=["linear", "yarn"],
)
def test_other_static_rope_types_move_as_well(rope: dict[str, Any], dtype: torch.dtype) -> None:
    """Yarn multiplies cos and sin by a constant; it is in the stored keys and must not be applied again."""
    runtime = wrap(build(config_of("llama", rope_parameters=rope), NAME, dtype))
    for start, delta in MOVES:
        check_move(runtime, start, delta)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_half_precision_keeps_the_frequencies_exact(name: str) -> None:
    assert torch.equal(twins(name, torch.bfloat16).runtime.inv_freq, twins(name).runtime.inv_freq)
