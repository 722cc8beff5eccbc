"""Checks of the engine: rotating keys (paper section 3), masking by absolute position (App. B, "The recompute path").

Both run on the model itself and on a real prompt of the task, since frequencies, grouped heads and lengths are theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from bcrbench.engine.attention import Kernel, Rows, masked
from bcrbench.engine.cache import SlotCache
from bcrbench.engine.model import Runtime
from bcrbench.reuse.block import Block, read
from bcrbench.verify.bench import Bench
from bcrbench.verify.exact import relative, rows_apart, tolerance
from bcrbench.verify.finding import Finding

_DELTAS = (1, 37, 512)
_SHARE = 5  # one row in so many is wiped


def rotation(bench: Bench) -> Finding:
    """Rotated keys come back, rotations compose, and a rotated key is the one that the model makes at that position.

    Errors are in units of the number type's eps times the largest key. An angle is a position times a frequency of at
    most 1, rounded to float32, so composing may lose one eps of float32 a position; coming back loses no angle.
    """
    runtime = bench.runtime
    ids = bench.longest_prompt()[:256]
    block = read(_prefilled(runtime, ids), 0, len(ids))
    eps = torch.finfo(runtime.dtype).eps
    drift = torch.finfo(torch.float32).eps / eps
    back = max(_eps_apart(_moved(runtime, block, delta, 0), block, eps) for delta in _DELTAS)
    composed = max(
        _eps_apart(_moved(runtime, block, a, a + b), block.moved(a + b, runtime.inv_freq), eps)
        for a, b in zip(_DELTAS, _DELTAS[1:])
    )
    placed = _placed(runtime, ids, block, eps)
    limits = (4.0, 4 + 2 * drift * sum(_DELTAS[1:]), 16 + 2 * drift * len(ids))
    worst = max(found / limit for found, limit in zip((back, composed, placed), limits))
    return Finding(
        name="rotation",
        passed=worst <= 1,
        number=max(back, composed, placed),
        unit="eps",
        expected=f"at most {limits[0]:.0f} there and back, {limits[1]:.0f} composed, {limits[2]:.0f} against the model",
        detail=f"there and back {back:.2g}, composed {composed:.2g}, against the model's own keys {placed:.2g}",
        source="section 3, Eq. 1",
    )


def _moved(runtime: Runtime, block: Block, by: int, then: int) -> Block:
    return block.moved(by, runtime.inv_freq).moved(then, runtime.inv_freq)


def _placed(runtime: Runtime, ids: list[int], block: Block, eps: float) -> float:
    """Keys of the first layer, which know no other token, one prompt further on: computed there, and rotated there."""
    there = read(_prefilled(runtime, [*ids, *ids]), len(ids), 2 * len(ids))
    rotated = block.moved(len(ids), runtime.inv_freq)
    return _eps_apart(_first_layer(rotated), _first_layer(there), eps)


def _first_layer(block: Block) -> Block:
    return Block(block.keys[:, :1], block.values[:, :1], block.origin)


def _eps_apart(found: Block, expected: Block, eps: float) -> float:
    gap = float((found.keys.float() - expected.keys.float()).abs().max())
    return gap / (eps * float(expected.keys.float().abs().max()))


@dataclass(frozen=True)
class _Restored:
    """What recomputing wiped rows left: the cache, the last token's logits, and the distance to what was there."""

    cache: SlotCache
    logits: Tensor
    error: float


def mask(bench: Bench) -> Finding:
    """Scattered rows that were wiped come back when they are recomputed, through the kernel as through the reference.

    The negative control masks as if the rows were the last ones, which libraries do and which is right for no scattered
    set: it must be told apart, or the check could not see a wrong mask.
    """
    runtime = bench.runtime
    ids = bench.longest_prompt()
    rows = sorted({*Random(bench.cell.settings.seed).sample(range(len(ids)), len(ids) // _SHARE), len(ids) - 1})
    found = _restore(runtime, ids, rows, None)
    reference = _restore(runtime, ids, rows, masked)
    wrong = _restore(runtime, ids, rows, bottom_right).error
    between = max(rows_apart(found.cache, reference.cache, rows), relative(found.logits, reference.logits))
    worst, limit = max(found.error, reference.error, between), tolerance(runtime)
    return Finding(
        name="mask",
        passed=worst <= limit and wrong > max(limit, 10 * worst),
        number=worst,
        unit="relative distance",
        expected=f"at most {limit:g}, and a wrong mask more than that and ten times as far",
        detail=(
            f"{len(rows)} of {len(ids)} rows wiped and recomputed: kernel {runtime.kernel_name} {found.error:.2g}, "
            f"explicit mask {reference.error:.2g}, between them {between:.2g}; bottom-right mask {wrong:.2g}"
        ),
        source="App. B, the recompute path",
    )


def _restore(runtime: Runtime, ids: list[int], rows: list[int], kernel: Kernel | None) -> _Restored:
    cache = runtime.new_cache(len(ids))
    before = runtime.run(ids, range(len(ids)), cache)
    kept = runtime.new_cache(len(ids))
    kept.keys.copy_(cache.keys)
    kept.values.copy_(cache.values)
    _wipe(cache, rows)
    logits = runtime.run([ids[row] for row in rows], rows, cache, kernel=kernel)
    return _Restored(cache, logits, max(rows_apart(cache, kept, rows), relative(logits, before)))


@torch.inference_mode()
def _wipe(cache: SlotCache, rows: list[int]) -> None:
    """Put noise of a row's own size in its place, in every layer."""
    at = torch.tensor(rows, device=cache.keys.device)
    for part in (cache.keys, cache.values):
        noise = torch.randn(part[:, :, :, rows].shape, generator=torch.Generator().manual_seed(0))
        part.index_copy_(3, at, noise.to(part) * part.std())


def bottom_right(query: Tensor, key: Tensor, value: Tensor, rows: Rows, scale: float) -> Tensor:
    """A wrong kernel: row i of n sees the keys up to end - n + i, as if the rows were the last n positions."""
    count, end = query.shape[2], key.shape[2]
    seen = torch.ones(count, end, dtype=torch.bool, device=query.device).tril(end - count)
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    return scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=scale)


def _prefilled(runtime: Runtime, ids: list[int]) -> SlotCache:
    cache = runtime.new_cache(len(ids))
    runtime.run(ids, range(len(ids)), cache)
    return cache
