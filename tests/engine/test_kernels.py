"""Every kernel equals attention written out row by row in float64, for every kind of row set."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import some_ids, twins
from torch import Tensor

from bcrbench.engine import attention
from bcrbench.engine.attention import KERNELS, Kernel, Rows, flash

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")

DIM = 16
# Scores reach 60 at scale 1, so float32 rounds them by 4e-6, and weights by as much, times values of up to 4.
CLOSE = {"rtol": 1e-4, "atol": 3e-5}
LENGTH = 300  # more than two tiles of 128 rows

ROW_SETS = {
    "scattered": [0, 3, 4, 90, 127, 128, 129, 200, 298],
    "one chunk": list(range(100, 164)),
    "two chunks": [*range(40, 104), *range(200, 264)],
    "single": [150],
    "first": [0],
    "last": [LENGTH - 1],
    "first and last": [0, LENGTH - 1],
    "full": list(range(LENGTH)),
    "prefix": list(range(140)),
    "suffix": list(range(120, LENGTH)),
    "every second": list(range(1, LENGTH, 2)),
    "exactly one tile": list(range(3, 3 + 2 * 128, 2)),
    "one more than a tile": list(range(3, 3 + 2 * 129, 2)),
}
HEADS = {"grouped": (6, 2), "one key head": (4, 1), "no groups": (4, 4)}
ON_CPU = ["sdpa", "tiles", "flex"]


def expected(query: Tensor, key: Tensor, value: Tensor, rows: list[int], scale: float) -> Tensor:
    """Row i of the set attends to the keys 0..rows[i], head by head, in float64."""
    group = query.shape[1] // key.shape[1]
    out = torch.empty(query.shape, dtype=torch.float64)
    for head in range(query.shape[1]):
        keys, values = key[0, head // group].double(), value[0, head // group].double()
        for place, row in enumerate(rows):
            scores = keys[: row + 1] @ query[0, head, place].double() * scale
            out[0, head, place] = torch.softmax(scores, dim=0) @ values[: row + 1]
    return out


def inputs(
    rows: list[int], heads: tuple[int, int], dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    """Query of the rows, and keys and values up to the last one, as the slot cache hands them over."""
    generator = torch.Generator().manual_seed(len(rows))
    end = rows[-1] + 1
    shapes = ((1, heads[0], len(rows), DIM), (1, heads[1], end, DIM), (1, heads[1], end, DIM))
    query, key, value = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
    return 2 * query, key, value


def check(kernel: Kernel, rows: list[int], heads: tuple[int, int], scale: float = DIM**-0.5) -> None:
    query, key, value = inputs(rows, heads)
    out = kernel(query, key, value, Rows(rows, query.device, kernel), scale)
    torch.testing.assert_close(out.double(), expected(query, key, value, rows, scale), **CLOSE)


@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("rows", ROW_SETS.values(), ids=ROW_SETS)
@pytest.mark.parametrize("name", ON_CPU)
def test_a_kernel_equals_the_reference(name: str, rows: list[int], heads: tuple[int, int]) -> None:
    check(KERNELS.get(name), rows, heads)


@settings(max_examples=80, deadline=None)
@given(
    name=st.sampled_from(ON_CPU),
    chosen=st.sets(st.integers(0, 60), min_size=1),
    heads=st.sampled_from(list(HEADS.values())),
    tile=st.integers(1, 9),
    scale=st.sampled_from([0.05, 0.25, 1.0]),
)
def test_a_kernel_equals_the_reference_for_any_row_set(
    name: str, chosen: set[int], heads: tuple[int, int], tile: int, scale: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "TILE", tile)
        check(KERNELS.get(name), sorted(chosen), heads, scale)


@pytest.mark.parametrize("name", ON_CPU)
def test_what_a_kernel_prepares_serves_all_layers_of_a_pass(name: str) -> None:
    kernel, listed = KERNELS.get(name), ROW_SETS["two chunks"]
    rows = Rows(listed, "cpu", kernel)
    for layer in range(3):
        query, key, value = (tensor.roll(layer, dims=-1) for tensor in inputs(listed, (4, 2)))
        out = kernel(query, key, value, rows, 0.25)
        torch.testing.assert_close(out.double(), expected(query, key, value, listed, 0.25), **CLOSE)


@pytest.mark.parametrize("name", ON_CPU)
def test_a_kernel_reads_keys_through_the_strides_of_a_larger_cache(name: str) -> None:
    rows = ROW_SETS["scattered"]
    query, key, value = inputs(rows, (4, 2))
    room = torch.full((1, 2, 400, DIM), torch.nan)
    slots = [room.clone(), room.clone()]
    for slot, filled in zip(slots, (key, value)):
        slot[:, :, : filled.shape[2]] = filled
    kernel = KERNELS.get(name)
    end = rows[-1] + 1
    out = kernel(query, slots[0][:, :, :end], slots[1][:, :, :end], Rows(rows, "cpu", kernel), 0.25)
    torch.testing.assert_close(out.double(), expected(query, key, value, rows, 0.25), **CLOSE)


def test_the_reference_tells_a_mask_aligned_at_an_end_from_one_by_position() -> None:
    """The hazard of every causal flag: right for one span at the end, wrong for scattered rows."""
    for name, rows in ROW_SETS.items():
        query, key, value = inputs(rows, (4, 4))
        right = expected(query, key, value, rows, 0.25)
        for offset in (rows[-1] + 1 - len(rows), 0):  # aligned bottom-right, then top-left
            shifted = [place + offset for place in range(len(rows))]
            differs = float((expected(query, key, value, shifted, 0.25) - right).norm() / right.norm())
            if shifted == rows:
                assert differs == 0
            else:
                assert differs > 0.3, (name, offset, differs)


@pytest.mark.parametrize("name", ["scattered", "two chunks", "every second"])
def test_a_causal_flag_in_a_kernels_place_fails_the_check(name: str) -> None:
    def bottom_right(query: Tensor, key: Tensor, value: Tensor, rows: Rows, scale: float) -> Tensor:
        offset = key.shape[2] - query.shape[2]
        mask = torch.ones(query.shape[2], key.shape[2]).tril(offset).bool()
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, scale=scale, enable_gqa=True
        )

    check(bottom_right, ROW_SETS["suffix"], (4, 2))
    with pytest.raises(AssertionError):
        check(bottom_right, ROW_SETS[name], (4, 2))


@pytest.mark.parametrize("name", ON_CPU)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_near_the_reference_of_the_same_inputs(name: str, dtype: torch.dtype) -> None:
    rows = ROW_SETS["two chunks"]
    query, key, value = inputs(rows, (4, 2), dtype)
    kernel = KERNELS.get(name)
    out = kernel(query, key, value, Rows(rows, "cpu", kernel), 0.25)
    assert out.dtype == dtype
    truth = expected(query, key, value, rows, 0.25)
    # Probabilities and the result are rounded once each, and the scores, of size up to about 8, once.
    assert float((out.double() - truth).abs().max()) < 8 * torch.finfo(dtype).eps


@pytest.mark.parametrize("name", ["sdpa", "flex"])
def test_the_engine_gives_the_same_rows_under_another_kernel(name: str) -> None:
    runtime = twins("llama").runtime
    ids = some_ids(200)
    cache = runtime.new_cache(200)
    runtime.run(ids, range(200), cache)
    keys, values = cache.keys.clone(), cache.values.clone()
    rows = [0, 5, *range(60, 199, 3), 199]
    cache.keys[:, :, :, rows] = 0
    runtime.run([ids[row] for row in rows], rows, cache, kernel=KERNELS.get(name))
    torch.testing.assert_close(cache.keys, keys, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(cache.values, values, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", ROW_SETS.values(), ids=ROW_SETS)
def test_flash_cuts_the_keys_at_the_end_of_every_span(rows: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """With FlashAttention's documented alignment, bottom-right, in its place: the spans are what is tested."""

    def bottom_right(query: Tensor, key: Tensor, value: Tensor, softmax_scale: float, causal: bool) -> Tensor:
        assert causal
        first = key.shape[1] - query.shape[1]
        heads_first = (tensor.transpose(1, 2) for tensor in (query, key, value))
        out = expected(*heads_first, list(range(first, key.shape[1])), softmax_scale)
        return out.transpose(1, 2).to(query.dtype)

    module = ModuleType("flash_attn")
    module.flash_attn_func = bottom_right  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flash_attn", module)
    check(flash, rows, (4, 2))


@pytest.mark.gpu
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("name", ["sdpa", "tiles", "flex", "flash"])
def test_a_kernel_equals_the_reference_on_cuda(name: str, heads: tuple[int, int]) -> None:
    dtype, bound = torch.float32, 1e-4
    if name == "flash":
        pytest.importorskip("flash_attn")
        dtype, bound = torch.float16, 8 * torch.finfo(torch.float16).eps
    kernel = KERNELS.get(name)
    for rows in ROW_SETS.values():
        query, key, value = inputs(rows, heads, dtype)
        with attention.pinned_backend():
            out = kernel(query.cuda(), key.cuda(), value.cuda(), Rows(rows, "cuda", kernel), 0.25)
        assert float((out.cpu().double() - expected(query, key, value, rows, 0.25)).abs().max()) < bound
