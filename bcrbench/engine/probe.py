"""Looking without touching: passes that leave cache and model as they were.

A probe of the first layers costs a fraction of a prefill (the check layer); rows lent for scratch are
given back byte for byte (paper Alg. 2, lines 1 and 3).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator, Sequence

from torch import inference_mode

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.model import Runtime


def first_layers(runtime: Runtime, ids: Sequence[int], layers: int) -> SlotCache:
    """Exact keys and values of the first `layers` layers for the whole of `ids`, from an empty cache.

    Runs `layers - 1` blocks and the next one's projections. Returns a cache [layers, 1, kv_heads, len(ids), head_dim].
    Raises ValueError when the model has fewer layers, or without ids.
    """
    if not 1 <= layers <= runtime.layers:
        raise ValueError(f"{layers} layers to probe: expected 1 to {runtime.layers}")
    cache = SlotCache(layers, runtime.kv_heads, runtime.head_dim, len(ids), runtime.dtype, runtime.device)
    runtime.fill(ids, range(len(ids)), cache)
    return cache


@contextmanager
def lent_rows(cache: SlotCache, start: int, end: int) -> Iterator[None]:
    """Lend rows [start, end) for scratch; afterwards they and the length are what they were, whatever happened."""
    cache.reserve(end)
    length = cache.length
    keys, values = (part[:, :, :, start:end].clone() for part in (cache.keys, cache.values))
    try:
        yield
    finally:
        # A cache that grew during a pass is an inference tensor, which may not be written elsewhere.
        with inference_mode():
            cache.keys[:, :, :, start:end] = keys
            cache.values[:, :, :, start:end] = values
        cache.length = length
