"""Attention kernels that need CUDA: one launch a layer for any row set, or for spans of one length."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from bcrbench.engine.attention import Rows, tiles

BLOCK = 128  # rows and keys a block of FlexAttention's mask; row sets are padded to a multiple


def flex(query: Tensor, key: Tensor, value: Tensor, rows: Rows, scale: float) -> Tensor:
    """FlexAttention with a block mask worked out from the positions; one launch a layer for any row set.

    Rows are padded to a multiple of the block, so that few shapes are compiled; a padding row repeats the last one.
    """
    from torch.nn.attention.flex_attention import flex_attention

    if len(rows) == 1 or rows.whole:
        return tiles(query, key, value, rows, scale)
    if "block_mask" not in rows.work:
        rows.work["block_mask"] = block_mask(rows)
    count = len(rows)
    query = pad(query, (0, 0, 0, -count % BLOCK))
    call = _compiled() if query.is_cuda else flex_attention
    return call(query, key, value, block_mask=rows.work["block_mask"], scale=scale, enable_gqa=True)[:, :, :count]


def block_mask(rows: Rows) -> Any:
    """The mask `key position <= row's position` by blocks: those below a block's first row are whole, those up to its
    last row are in part, the rest are skipped. Made from the positions alone, without a mask of rows times keys.
    """
    from torch.nn.attention.flex_attention import BlockMask

    positions = pad(rows.positions, (0, -len(rows) % BLOCK), value=rows.listed[-1])
    by_block = positions.view(-1, BLOCK)
    whole = (by_block[:, 0] + 1) // BLOCK
    partly = by_block[:, -1] // BLOCK + 1 - whole
    columns = torch.arange(-(-rows.end // BLOCK), device=positions.device, dtype=torch.int32)
    partial = (whole[:, None] + columns) % len(columns)

    def seen(batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return column <= positions[row]

    return BlockMask.from_kv_blocks(
        partly.int()[None, None],
        partial.int()[None, None].contiguous(),
        whole.int()[None, None],
        columns.expand(len(by_block), -1)[None, None].contiguous(),
        BLOCK_SIZE=BLOCK,
        mask_mod=seen,
        seq_lengths=(len(positions), rows.end),
    )


@cache
def _compiled() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True)


def flash(query: Tensor, key: Tensor, value: Tensor, rows: Rows, scale: float) -> Tensor:
    """FlashAttention-2, one launch for all contiguous spans of one length: they share the keys, cut at a span's end.

    Its causal mask is aligned bottom-right, which is exact for a span that ends where the keys end (extra `gpu`).
    """
    from flash_attn import flash_attn_with_kvcache

    query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
    out = torch.empty_like(query)
    for places, ends, shared in _spans_by_length(rows):
        spans = query[0, places]
        out[0, places] = flash_attn_with_kvcache(
            spans, key, value, cache_seqlens=ends, cache_batch_idx=shared, softmax_scale=scale, causal=True
        )
    return out.transpose(1, 2)


def _spans_by_length(rows: Rows) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each length: the spans' row indices [spans, length], their ends, and the one cache's index for each."""
    if "spans" not in rows.work:
        lengths: dict[int, list[int]] = {}
        for first, last in rows.spans:
            lengths.setdefault(last - first, []).append(first)
        rows.work["spans"] = [_of_length(rows, length, firsts) for length, firsts in lengths.items()]
    return rows.work["spans"]


def _of_length(rows: Rows, length: int, firsts: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    places = torch.tensor(firsts, device=rows.device)[:, None] + torch.arange(length, device=rows.device)
    ends = (rows.positions[places[:, -1]] + 1).int()
    return places, ends, torch.zeros_like(ends)
