"""Running rows of a prompt against a cache: prefill, any row set and decode are one thing (paper App. B)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import ARCHITECTURES, Twins, some_ids, twins
from torch import Tensor

from bcrbench.engine.attention import Rows
from bcrbench.engine.cache import SlotCache
from bcrbench.engine.decode import greedy, most_likely
from bcrbench.engine.model import Runtime

# Two orders of adding the same float32 products: a few hundred roundings of numbers up to about 8.
CLOSE = {"rtol": 1e-4, "atol": 1e-4}
LENGTH = 160  # longer than one tile, so that both ways through the default kernel are taken

few = settings(max_examples=25, deadline=None)


@pytest.fixture(params=ARCHITECTURES)
def pair(request: pytest.FixtureRequest) -> Twins:
    return twins(request.param)


def prefill(runtime: Runtime, ids: list[int], capacity: int | None = None) -> tuple[SlotCache, Tensor]:
    cache = runtime.new_cache(len(ids) if capacity is None else capacity)
    return cache, runtime.run(ids, range(len(ids)), cache)


@torch.inference_mode()
def own_forward(model: Any, ids: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Keys, values [layers, 1, heads, tokens, dim] and the last row's logits of the model's own forward."""
    out = model(input_ids=torch.tensor([ids]), use_cache=True)
    keys = torch.stack([layer.keys for layer in out.past_key_values.layers])
    values = torch.stack([layer.values for layer in out.past_key_values.layers])
    return keys, values, out.logits[0, -1].float()


def wipe(cache: SlotCache, rows: list[int]) -> None:
    cache.keys[:, :, :, rows] = 0
    cache.values[:, :, :, rows] = 0


def test_running_all_rows_equals_the_models_own_forward(pair: Twins) -> None:
    ids = some_ids(LENGTH)
    cache, logits = prefill(pair.runtime, ids)
    keys, values, expected = own_forward(pair.reference, ids)
    torch.testing.assert_close(cache.keys, keys, **CLOSE)
    torch.testing.assert_close(cache.values, values, **CLOSE)
    torch.testing.assert_close(logits, expected, **CLOSE)
    assert cache.length == LENGTH


@pytest.mark.parametrize("name", ["scattered", "chunk", "first", "last", "all", "even", "two_ends"])
def test_wiped_rows_come_back(pair: Twins, name: str) -> None:
    rows = {
        "scattered": [1, 2, 17, 40, 41, 77, 158],
        "chunk": list(range(30, 94)),
        "first": [0],
        "last": [LENGTH - 1],
        "all": list(range(LENGTH)),
        "even": list(range(0, LENGTH, 2)),
        "two_ends": [0, LENGTH - 1],
    }[name]
    check_restored(pair.runtime, some_ids(LENGTH), rows)


@few
@given(
    name=st.sampled_from(ARCHITECTURES),
    chosen=st.lists(st.booleans(), min_size=1, max_size=50).filter(any),
    seed=st.integers(0, 5),
)
def test_any_wiped_row_set_comes_back(name: str, chosen: list[bool], seed: int) -> None:
    rows = [row for row, wiped in enumerate(chosen) if wiped]
    check_restored(twins(name).runtime, some_ids(len(chosen), seed), rows)


def check_restored(runtime: Runtime, ids: list[int], rows: list[int]) -> None:
    cache, expected = prefill(runtime, ids)
    keys, values = cache.keys.clone(), cache.values.clone()
    wipe(cache, rows)
    lost = (cache.keys - keys).abs().amax(dim=(0, 1, 2, 4))
    assert (lost[rows] > 0.1).all(), "the wipe took nothing away"
    # The last prompt token joins every pass, since its logits are the next token's.
    run = sorted({*rows, len(ids) - 1})
    logits = runtime.run([ids[row] for row in run], run, cache)
    torch.testing.assert_close(cache.keys, keys, **CLOSE)
    torch.testing.assert_close(cache.values, values, **CLOSE)
    torch.testing.assert_close(logits, expected, **CLOSE)
    assert cache.length == len(ids)


def test_a_row_left_wiped_is_felt_by_the_rows_after_it(pair: Twins) -> None:
    ids = some_ids(40)
    cache, expected = prefill(pair.runtime, ids)
    keys = cache.keys.clone()
    wipe(cache, [5, 6])
    rows = [4, 6, 20, 39]
    logits = pair.runtime.run([ids[row] for row in rows], rows, cache)
    last_layer = (cache.keys - keys)[-1, 0].abs().amax(dim=(0, 2))
    assert last_layer[4] < 1e-4, "a row before the wiped ones cannot see them"
    assert (last_layer[[6, 20, 39]] > 1e-3).all()
    assert (logits - expected).abs().max() > 1e-3


def test_rows_that_were_not_run_stay_as_they_were(pair: Twins) -> None:
    ids = some_ids(60)
    cache, _ = prefill(pair.runtime, ids)
    keys, values = cache.keys.clone(), cache.values.clone()
    rows = [3, 20, 21, 30]
    pair.runtime.run([7] * len(rows), rows, cache)
    kept = [row for row in range(60) if row not in rows]
    assert torch.equal(cache.keys[:, :, :, kept], keys[:, :, :, kept])
    assert torch.equal(cache.values[:, :, :, kept], values[:, :, :, kept])
    assert not torch.equal(cache.keys[:, :, :, rows], keys[:, :, :, rows])
    assert cache.length == 60


@few
@given(name=st.sampled_from(ARCHITECTURES), cuts=st.lists(st.integers(1, 20), min_size=2, max_size=4))
def test_a_prompt_run_piece_by_piece_equals_one_prefill(name: str, cuts: list[int]) -> None:
    runtime = twins(name).runtime
    ids = some_ids(sum(cuts))
    whole, expected = prefill(runtime, ids)
    cache = runtime.new_cache(0)
    start = 0
    for cut in cuts:
        logits = runtime.run(ids[start : start + cut], range(start, start + cut), cache)
        start += cut
        assert cache.length == start
    torch.testing.assert_close(cache.keys[:, :, :, :start], whole.keys, **CLOSE)
    torch.testing.assert_close(cache.values[:, :, :, :start], whole.values, **CLOSE)
    torch.testing.assert_close(logits, expected, **CLOSE)


def test_a_row_set_run_against_a_prefix_only_cache(pair: Twins) -> None:
    ids = some_ids(50)
    whole, _ = prefill(pair.runtime, ids)
    cache, _ = prefill(pair.runtime, ids[:20], capacity=50)
    # Rows 0..19 are there; row 7 is renewed and 20..29 are new, in one pass.
    rows = [7, *range(20, 30)]
    pair.runtime.run([ids[row] for row in rows], rows, cache)
    assert cache.length == 30
    torch.testing.assert_close(cache.keys[:, :, :, :30], whole.keys[:, :, :, :30], **CLOSE)
    torch.testing.assert_close(cache.values[:, :, :, :30], whole.values[:, :, :, :30], **CLOSE)
    assert not cache.keys[:, :, :, 30:].any()


def test_rows_beyond_the_row_set_are_never_seen(pair: Twins) -> None:
    ids = some_ids(40)
    cache, _ = prefill(pair.runtime, ids[:20], capacity=40)
    clean = pair.runtime.run([ids[19]], [19], cache)
    cache.keys[:, :, :, 20:] = 1e4
    cache.values[:, :, :, 20:] = 1e4
    for rows in ([19], [2, 19], list(range(20))):
        logits = pair.runtime.run([ids[row] for row in rows], rows, cache)
        torch.testing.assert_close(logits, clean, **CLOSE)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [([], "at least one row"), ([3, 2], "ascending"), ([2, 2], "each once"), ([0, 1, 5, 5], "each once")],
)
def test_rows_that_make_no_sense_are_refused(rows: list[int], reason: str) -> None:
    runtime = twins("llama").runtime
    cache, _ = prefill(runtime, some_ids(8))
    keys = cache.keys.clone()
    with pytest.raises(ValueError, match=reason):
        runtime.run([1] * len(rows), rows, cache)
    assert torch.equal(cache.keys, keys)
    assert cache.length == 8


@pytest.mark.parametrize("rows", [[-1], [-2, 0, 1], [-5, -4]])
def test_rows_before_the_prompt_are_refused(rows: list[int]) -> None:
    runtime = twins("llama").runtime
    cache, _ = prefill(runtime, some_ids(8))
    keys = cache.keys.clone()
    with pytest.raises(ValueError, match="0 or more"):
        runtime.run([1] * len(rows), rows, cache)
    assert torch.equal(cache.keys, keys)


@pytest.mark.parametrize("rows", [[9], [3, 9], [8, 10], [5, 8, 9, 11]])
def test_rows_that_leave_a_hole_after_the_filled_rows_are_refused(rows: list[int]) -> None:
    runtime = twins("llama").runtime
    cache, _ = prefill(runtime, some_ids(8))
    with pytest.raises(ValueError, match="hole"):
        runtime.run([1] * len(rows), rows, cache)
    assert cache.length == 8


def test_ids_and_rows_of_unequal_number_are_refused() -> None:
    runtime = twins("llama").runtime
    with pytest.raises(ValueError, match="2 ids for 3 rows"):
        runtime.run([1, 2], [0, 1, 2], runtime.new_cache(8))


@pytest.mark.parametrize("listed", [[2], [1, 3, 4], [0, 1, 2, 3]])
def test_a_cache_scatters_rows_and_returns_what_is_filled_up_to_the_last(listed: list[int]) -> None:
    cache = SlotCache(2, 2, 4, 9, torch.float32, "cpu")
    keys, values = torch.randn(2, len(listed), 2, 4)
    seen_keys, seen_values = cache.put(1, keys, values, Rows(listed, "cpu", lambda *_: torch.empty(0)))
    assert seen_keys.shape == seen_values.shape == (1, 2, listed[-1] + 1, 4)
    assert torch.equal(seen_keys[0, :, listed], keys.transpose(0, 1))
    assert torch.equal(seen_values[0, :, listed], values.transpose(0, 1))
    rest = [row for row in range(9) if row not in listed]
    assert not cache.keys[0].any() and not cache.keys[1][:, :, rest].any() and not cache.values[1][:, :, rest].any()


@given(st.sets(st.integers(0, 40), min_size=1))
def test_spans_are_the_maximal_runs_of_a_row_set(chosen: set[int]) -> None:
    rows = Rows(sorted(chosen), "cpu", lambda *_: torch.empty(0))
    runs = [rows.listed[first:last] for first, last in rows.spans]
    assert [row for run in runs for row in run] == rows.listed
    assert all(run == list(range(run[0], run[0] + len(run))) for run in runs)
    assert all(after[0] > before[-1] + 1 for before, after in pairwise(runs))
    assert rows.contiguous == (len(runs) == 1)
    assert (rows.start, rows.end) == (min(chosen), max(chosen) + 1)


@pytest.mark.parametrize("seed", range(4))
def test_greedy_decoding_equals_generate_token_for_token(pair: Twins, seed: int) -> None:
    ids = some_ids([1, 9, 63, 150][seed], seed)
    cache, logits = prefill(pair.runtime, ids)
    ours = greedy(pair.runtime, cache, [most_likely(logits)], len(ids), 30)
    theirs = generate(pair, ids, 30)
    assert ours.ids == theirs
    assert len(ours.ids) == 30 or ours.finish == "stop"
    assert len(set(ours.ids)) >= 5, "a model that repeats itself shows nothing"


def generate(pair: Twins, ids: list[int], limit: int) -> list[int]:
    prompt = torch.tensor([ids])
    stops = sorted(pair.runtime.stop_ids())
    out = pair.reference.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=limit, do_sample=False, eos_token_id=stops,
        pad_token_id=stops[0],
    )  # fmt: skip
    return out[0, len(ids) :].tolist()


def test_decoding_ends_at_a_stop_token_as_generate_does(pair: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = some_ids(12, 3)
    cache, logits = prefill(pair.runtime, ids)
    free = greedy(pair.runtime, cache, [most_likely(logits)], len(ids), 20).ids
    stop = free[9]
    monkeypatch.setattr(pair.runtime.model.generation_config, "eos_token_id", [stop])
    cache, logits = prefill(pair.runtime, ids)
    stopped = greedy(pair.runtime, cache, [most_likely(logits)], len(ids), 20)
    assert stopped.ids == free[: free.index(stop) + 1] == generate(pair, ids, 20)
    assert stopped.finish == "stop"
    # The stopping token is never run, so its row is not in the cache.
    assert cache.length == len(ids) + len(stopped.ids) - 1


def test_a_limit_of_one_token_runs_nothing(pair: Twins) -> None:
    cache, logits = prefill(pair.runtime, some_ids(5))
    done = greedy(pair.runtime, cache, [most_likely(logits)], 5, 1)
    assert (done.ids, done.finish, cache.length) == ([most_likely(logits)], "length", 5)


def test_decoding_after_a_repair_continues_as_after_a_prefill(pair: Twins) -> None:
    ids = some_ids(70, 2)
    cache, logits = prefill(pair.runtime, ids)
    expected = greedy(pair.runtime, cache, [most_likely(logits)], len(ids), 12)
    cache, _ = prefill(pair.runtime, ids)
    rows = [0, *range(10, 40), 55, 69]
    wipe(cache, rows)
    logits = pair.runtime.run([ids[row] for row in rows], rows, cache)
    assert greedy(pair.runtime, cache, [most_likely(logits)], len(ids), 12) == expected


@few
@given(rooms=st.lists(st.integers(0, 90), min_size=1, max_size=5), filled=st.integers(1, 30))
def test_a_cache_that_grows_keeps_its_rows(rooms: list[int], filled: int) -> None:
    runtime = twins("qwen2").runtime
    cache, _ = prefill(runtime, some_ids(filled))
    keys, values = cache.keys.clone(), cache.values.clone()
    for room in rooms:
        before = cache.capacity
        cache.reserve(room)
        assert cache.capacity >= max(room, before)
        assert cache.length == filled
        assert torch.equal(cache.keys[:, :, :, :filled], keys)
        assert torch.equal(cache.values[:, :, :, :filled], values)


def test_running_past_the_capacity_grows_the_cache(pair: Twins) -> None:
    ids = some_ids(90)
    whole, _ = prefill(pair.runtime, ids)
    cache, _ = prefill(pair.runtime, ids[:10], capacity=10)
    for start in range(10, 90, 16):
        end = min(start + 16, 90)
        pair.runtime.run(ids[start:end], range(start, end), cache)
    torch.testing.assert_close(cache.keys[:, :, :, :90], whole.keys, **CLOSE)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_bfloat16_is_as_near_to_float32_as_the_models_own_forward(name: str) -> None:
    pair = twins(name, torch.bfloat16)
    ids = some_ids(LENGTH)
    exact = own_forward(upcast(name), ids)
    theirs = own_forward(pair.reference, ids)
    cache, logits = prefill(pair.runtime, ids)
    rows = [0, 9, *range(60, 100), 130, LENGTH - 1]
    wipe(cache, rows)
    logits = pair.runtime.run([ids[row] for row in rows], rows, cache)
    assert cache.keys.dtype == torch.bfloat16
    for ours, own, truth in zip((cache.keys, cache.values, logits), theirs, exact, strict=True):
        # Both round at the same places; half as much again leaves room for another order of sums.
        assert distance(ours, truth) <= 1.5 * distance(own, truth) + 1e-3


def upcast(name: str) -> Any:
    """The bfloat16 weights in a float32 model."""
    model = twins(name, torch.float32).reference.__class__(twins(name).reference.config)
    model.load_state_dict(twins(name, torch.bfloat16).reference.state_dict())
    return model.eval()


def distance(tensor: Tensor, truth: Tensor) -> float:
    """Relative L2 distance."""
    return float((tensor.float() - truth).norm() / truth.norm())
