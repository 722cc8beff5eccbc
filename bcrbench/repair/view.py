"""What a repair may look at: one assembled cache, the prompt's ids, where rows came from (paper section 3, "The repair").

Nothing here knows a benchmark. Costly things (the draft, an exact cache) are made when a selector asks, once a call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Callable

import torch
from torch import Tensor

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.model import Runtime
from bcrbench.reuse.segments import Segment


@dataclass
class RepairView:
    """One call's served cache of M rows, before its last prompt token runs.

    `ids` are the M + 1 prompt ids, `segments` the prompt's, `exact[j]` tells whether row j is exact already (its
    provenance, not a measurement), `index` counts the run's repaired calls from 0, `seed` is the coin's.
    `timed` wraps a piece of work in a named stage of the call's clock.
    """

    runtime: Runtime
    cache: SlotCache
    ids: list[int]
    segments: list[Segment]
    exact: list[bool]
    index: int
    seed: int
    draft_tokens: int = 2
    timed: Callable[[str, Callable[[], object]], object] = field(default=lambda name, work: work())

    @property
    def rows(self) -> int:
        """M, the rows that generation starts from."""
        return len(self.ids) - 1

    @cached_property
    def draft(self) -> Draft:
        """The draft on the cache as it is; leaves the cache as it was, byte for byte."""
        found = self.timed("draft", lambda: make_draft(self))
        assert isinstance(found, Draft)
        return found

    @cached_property
    def dense(self) -> SlotCache:
        """An exact cache of the same ids: what transplant copies from and the oracle compares with."""
        cache = self.runtime.new_cache(len(self.ids))
        self.runtime.run(self.ids, range(len(self.ids)), cache)
        return cache


@dataclass(frozen=True)
class Draft:
    """The draft's tokens, their top-1 probabilities, and the queries of its k rows.

    `queries[l]` is [heads, k, head_dim]: the prompt's last token, then the first k - 1 generated ones (paper Alg. 2).
    """

    ids: list[int]
    confidence: list[float]
    queries: list[Tensor]


@torch.inference_mode()
def make_draft(view: RepairView) -> Draft:
    """Generate `draft_tokens` greedily on the assembled cache, recording queries, and roll everything back."""
    cache, start = view.cache, view.rows
    kept_length = cache.length
    cache.reserve(start + view.draft_tokens)
    kept = [part[:, :, :, start : start + view.draft_tokens].clone() for part in (cache.keys, cache.values)]
    steps: list[list[Tensor]] = []
    ids: list[int] = []
    confidence: list[float] = []
    token = view.ids[-1]
    cache.length = start
    for step in range(view.draft_tokens):
        queries: list[Tensor] = []
        logits = view.runtime.run([token], [start + step], cache, queries=queries)
        steps.append(queries)
        token = int(torch.argmax(logits))
        ids.append(token)
        confidence.append(float(torch.softmax(logits, dim=-1)[token]))
    for part, old in zip((cache.keys, cache.values), kept, strict=True):
        part[:, :, :, start : start + view.draft_tokens] = old
    cache.length = kept_length
    return Draft(ids, confidence, [torch.cat(layer, dim=1) for layer in zip(*steps, strict=True)])
