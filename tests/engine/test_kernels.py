"""Every kernel equals attention written out row by row in float64, for every kind of row set."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_models import some_ids, twins
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask

from bcrbench.engine import attention, blocks
from bcrbench.engine.attention import KERNELS, Kernel, Rows
from bcrbench.engine.gpu import block_mask, flash

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
ON_CPU = ["sdpa", "tiles", "blocks", "flex"]
ANY_TYPE = ["sdpa", "tiles", "flex"]


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
    keys=st.integers(1, 9),
    scale=st.sampled_from([0.05, 0.25, 1.0]),
)
def test_a_kernel_equals_the_reference_for_any_row_set(
    name: str, chosen: set[int], heads: tuple[int, int], tile: int, keys: int, scale: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "TILE", tile)
        patch.setattr(blocks, "CHUNK", tile)
        patch.setattr(blocks, "KEYS", keys)
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


@pytest.mark.parametrize("rows", ["scattered", "two chunks", "last"])
def test_blocks_hold_scores_of_any_size_and_pass_on_what_is_no_number(rows: str) -> None:
    """Scores that rise from block to block by more than an exponential holds, then a NaN in one key."""
    listed = ROW_SETS[rows]
    query, key, value = inputs(listed, (4, 2))
    key *= torch.linspace(1, 400, key.shape[2])[:, None]
    kernel = KERNELS.get("blocks")
    out = kernel(query, key, value, Rows(listed, "cpu", kernel), 1.0)
    torch.testing.assert_close(out.double(), expected(query, key, value, listed, 1.0), rtol=1e-3, atol=1e-3)
    key[:, :, listed[-1] // 2] = torch.nan
    spoiled = kernel(query, key, value, Rows(listed, "cpu", kernel), 1.0).isnan().all(dim=(0, 1, 3))
    assert spoiled.tolist() == [row >= listed[-1] // 2 for row in listed]


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


@pytest.mark.parametrize("name", ANY_TYPE)
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


@pytest.mark.parametrize("name", ["sdpa", "blocks", "flex"])
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
    lengths: list[int] = []

    def bottom_right(
        query: Tensor, key: Tensor, value: Tensor, cache_seqlens: Tensor, cache_batch_idx: Tensor,
        softmax_scale: float, causal: bool,
    ) -> Tensor:  # fmt: skip
        assert causal and cache_batch_idx.dtype == cache_seqlens.dtype == torch.int32
        lengths.append(query.shape[1])
        done = []
        for span, end, shared in zip(query, cache_seqlens.tolist(), cache_batch_idx.tolist(), strict=True):
            heads_first = (part.transpose(0, 1)[None] for part in (span, key[shared, :end], value[shared, :end]))
            done.append(expected(*heads_first, list(range(end - len(span), end)), softmax_scale)[0].transpose(0, 1))
        return torch.stack(done).to(query.dtype)

    module = ModuleType("flash_attn")
    module.flash_attn_with_kvcache = bottom_right  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flash_attn", module)
    check(flash, rows, (4, 2))
    assert len(lengths) == len(set(lengths)), "one launch a length"


def dense_mask(mask: Any, rows: list[int]) -> Tensor:
    """What a block mask lets a kernel see: whole blocks as they are, those in part through its function."""
    count, end = mask.seq_lengths
    seen = torch.zeros(count, -(-end // 128) * 128, dtype=torch.bool)
    for block in range(-(-count // 128)):
        down = slice(block * 128, block * 128 + 128)
        for column in mask.full_kv_indices[0, 0, block, : mask.full_kv_num_blocks[0, 0, block]].tolist():
            seen[down, column * 128 : column * 128 + 128] = True
        for column in mask.kv_indices[0, 0, block, : mask.kv_num_blocks[0, 0, block]].tolist():
            across = torch.arange(column * 128, column * 128 + 128)
            at = torch.arange(down.start, min(down.stop, count))
            seen[down, across] = mask.mask_mod(None, None, at[:, None], across)
    return seen[: len(rows), :end]


@settings(max_examples=60, deadline=None)
@given(chosen=st.sets(st.integers(0, 700), min_size=2).map(sorted))
@example(chosen=ROW_SETS["exactly one tile"])
@example(chosen=list(range(100, 400)))
@example(chosen=[127, 128, 255, 256])
def test_a_block_mask_from_positions_is_the_mask_by_position(chosen: list[int]) -> None:
    made = block_mask(Rows(chosen, "cpu", flash))
    assert torch.equal(dense_mask(made, chosen), torch.arange(chosen[-1] + 1) <= torch.tensor(chosen)[:, None])
    padded = [*chosen, *[chosen[-1]] * (-len(chosen) % 128)]
    at = torch.tensor(padded)
    whole = create_block_mask(lambda b, h, q, k: k <= at[q], None, None, len(padded), chosen[-1] + 1, device="cpu")
    both = (made.kv_num_blocks + made.full_kv_num_blocks, whole.kv_num_blocks + whole.full_kv_num_blocks)
    assert torch.equal(*both), "as many blocks as a mask of rows times keys finds"


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
