"""How near two ways of computing the same thing come: rows, caches, tokens (paper App. B, "Correctness")."""

from __future__ import annotations

from math import inf, isfinite
from typing import Sequence

import torch
from torch import Tensor

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.model import Runtime

# Relative L2 distance that two orders of the same sums may leave after all layers. The paper saw a few percent in half
# precision at 512 tokens; single precision is far below its bound, and a wrong mask far above either.
_TOLERANCE = {torch.float32: 1e-3, torch.float16: 5e-2, torch.bfloat16: 1e-1}


def tolerance(runtime: Runtime) -> float:
    """The relative distance that the model's number type explains."""
    return _TOLERANCE[runtime.dtype]


def relative(found: Tensor, exact: Tensor) -> float:
    """||found - exact|| / ||exact||, infinite when anything is not a number."""
    found, exact = found.float(), exact.float()
    size = float(torch.linalg.vector_norm(exact))
    distance = float(torch.linalg.vector_norm(found - exact))
    ratio = distance / size if size else distance
    return ratio if isfinite(ratio) else inf


def rows_apart(found: SlotCache, exact: SlotCache, rows: Sequence[int]) -> float:
    """The largest relative distance of the rows in two caches, tensor by tensor: keys and values, layer by layer."""
    at = torch.tensor(list(rows), device=exact.keys.device)
    pairs = ((found.keys, exact.keys), (found.values, exact.values))
    return max(
        relative(one[layer].index_select(2, at), other[layer].index_select(2, at))
        for one, other in pairs
        for layer in range(exact.keys.shape[0])
    )


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Where two generations part; None when they are the same."""
    if list(one) == list(other):
        return None
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def top_gap(runtime: Runtime, ids: list[int]) -> tuple[float, bool]:
    """How far the two likeliest next tokens are apart after `ids`, and whether numerics alone can swap them."""
    logits = runtime.run(ids, range(len(ids)), runtime.new_cache(len(ids)))
    best = torch.topk(logits, 2).values
    gap = float(best[0] - best[1])
    return gap, gap <= 0.1 * tolerance(runtime) * float(logits.abs().max())
