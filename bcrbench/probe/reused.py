"""One reused segment held against Dense: the cache, its repairs, and the error they leave (section 4.2, Table 8).

The segment's rows are predicted; every other row of the cache is Dense's, so that nothing but the segment is measured
and restoring all of it leaves no error.

The error is that of attention outputs before the output projection, for the queries of Dense's own decoding: the
prompt's last token and the first generated ones. They are the same for every variant, so only the cache varies. Each
sees what it sees in Dense: all rows up to its own. Distances are pooled over everything at once, layers, heads and
queries: the root of the summed squared differences over the summed squared norms.
"""

from __future__ import annotations

from math import sqrt
from typing import Sequence

import torch
from torch import Tensor

from bcrbench.engine.attention import Rows, masked
from bcrbench.engine.cache import SlotCache
from bcrbench.engine.decode import most_likely
from bcrbench.engine.model import Runtime
from bcrbench.repair import OPERATORS
from bcrbench.repair.view import RepairView
from bcrbench.reuse.segments import Prompt, Segment


class ReusedSegment:
    """A prompt whose one shared segment is predicted, ready to be restored in part, measured, and reset.

    `cache` holds the assembled prompt with room for k decoded rows; it is taken over. `k` counts the decode queries,
    of the choosing draft and of the measurement alike.
    """

    @torch.inference_mode()
    def __init__(self, runtime: Runtime, prompt: Prompt, cache: SlotCache, k: int, index: int = 0) -> None:
        self.segment: Segment = prompt.shared()[0]
        exact = [not self.segment.start <= row < self.segment.end for row in range(len(prompt.ids) - 1)]
        self.view = RepairView(runtime, cache, prompt.ids, prompt.segments, exact, index, draft_tokens=k)
        self.view.dense, self.queries = dense_decoding(runtime, prompt.ids, k)
        self._kept = [part[:, :, :, self.segment.start : self.segment.end].clone() for part in _parts(cache)]
        self._exact = self._outputs(self.view.dense)
        self._norm = _squares(self._exact)
        self.reset()

    @torch.inference_mode()
    def reset(self) -> None:
        """The segment as predicted, everything else Dense's."""
        for part, kept in zip(_parts(self.view.cache), self._kept, strict=True):
            part[:, :, :, self.segment.start : self.segment.end] = kept
        self._make_rest_exact()

    def restore(self, rows: Sequence[int], operator: str) -> None:
        """Make ascending rows of the segment fresh by `transplant` or `recompute`; none leaves it as it is."""
        if rows:
            OPERATORS.get(operator)(self.view, rows)
            # Operators also run the prompt's last token, on the cache as it is.
            self._make_rest_exact()

    @torch.inference_mode()
    def error(self) -> float:
        """Relative L2 distance of the attention outputs from Dense's."""
        ours = self._outputs(self.view.cache)
        return sqrt(_squares([a - b for a, b in zip(ours, self._exact, strict=True)]) / self._norm)

    @torch.inference_mode()
    def _make_rest_exact(self) -> None:
        end = self.view.dense.length
        for part, dense in zip(_parts(self.view.cache), _parts(self.view.dense), strict=True):
            part[:, :, :, : self.segment.start] = dense[:, :, :, : self.segment.start]
            part[:, :, :, self.segment.end : end] = dense[:, :, :, self.segment.end : end]
        self.view.cache.length = end

    def _outputs(self, cache: SlotCache) -> list[Tensor]:
        """Attention outputs [heads, k, head_dim] of each layer, float32."""
        count = self.queries[0].shape[1]
        scale = self.view.runtime.head_dim**-0.5
        rows = Rows(list(range(self.view.rows, self.view.rows + count)), cache.keys.device, masked)
        filled = slice(0, rows.end)
        return [
            masked(query[None].float(), keys[:, :, filled].float(), values[:, :, filled].float(), rows, scale)[0]
            for query, keys, values in zip(self.queries, cache.keys, cache.values, strict=True)
        ]


def dense_decoding(runtime: Runtime, ids: Sequence[int], k: int) -> tuple[SlotCache, list[Tensor]]:
    """A dense cache of the prompt and k - 1 generated tokens, and the queries [heads, k, head_dim] of its last k rows.

    These are the prompt's last token and the generated ones, each run on its own, as decoding does.
    """
    last = len(ids) - 1
    cache = runtime.new_cache(last + k)
    runtime.run(ids[:last], range(last), cache)
    token = ids[last]
    steps: list[list[Tensor]] = []
    for row in range(last, last + k):
        queries: list[Tensor] = []
        token = most_likely(runtime.run([token], [row], cache, queries=queries))
        steps.append(queries)
    return cache, [torch.cat(layer, dim=1) for layer in zip(*steps, strict=True)]


def _parts(cache: SlotCache) -> tuple[Tensor, Tensor]:
    return cache.keys, cache.values


def _squares(tensors: Sequence[Tensor]) -> float:
    return float(sum(tensor.double().square().sum() for tensor in tensors))
