"""Attention that some queries pay the cached rows: the score of section 3, shared by `draft` and `query`."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor

from bcrbench.repair.view import RepairView


@torch.inference_mode()
def attention_paid(view: RepairView, queries: Sequence[Tensor] | Tensor, positions: Sequence[int]) -> Tensor:
    """Scores [M]: a_j = sum over layers but the first of the mean over queries and heads of softmax(q K~^T / sqrt d)_j.

    `queries[l]` is [heads, n, head_dim], of tokens at `positions` [n]. The softmax runs over the M cached rows alone,
    up to a query's own position; keys are the cache's, that is the predicted ones. Float32 throughout. One layer at a
    time: a float32 copy of all keys would be larger than a half-precision cache. Nothing waits for the device.
    """
    cached = view.rows
    hidden = _hidden(positions, cached, view.cache.keys.device)
    total = torch.zeros(cached, dtype=torch.float32, device=view.cache.keys.device)
    for layer in range(1, view.runtime.layers):
        _add_mass(total, queries[layer], view.cache.keys[layer, 0, :, :cached], hidden)
    return total.div_(queries[0].shape[0] * queries[0].shape[1])


def _add_mass(total: Tensor, query: Tensor, keys: Tensor, hidden: Tensor | None) -> None:
    """Add one layer's attention to [M]; query [heads, n, dim], keys [kv_heads, M, dim], hidden [n, M]."""
    heads, count, dim = query.shape
    kv_heads = keys.shape[0]
    # Query heads of a group are neighbours, so folding them into rows pairs each with its own key head.
    folded = (query.float() * dim**-0.5).reshape(kv_heads, heads // kv_heads * count, dim)
    logits = (folded @ keys.float().transpose(1, 2)).view(heads, count, -1)
    if hidden is not None:
        logits.masked_fill_(hidden, -torch.inf)
    total += torch.softmax(logits, dim=-1).sum(dim=(0, 1))


def _hidden(positions: Sequence[int], cached: int, device: torch.device) -> Tensor | None:
    """Which cached rows come after a query [n, M]; None when none does."""
    if min(positions) >= cached - 1:
        return None
    return torch.arange(cached, device=device) > torch.tensor(list(positions), device=device)[:, None]
