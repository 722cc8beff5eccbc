"""What a repair may look at: one assembled cache, the prompt's ids, where rows came from (section 3, "The repair").

Nothing here knows a benchmark. Costly things (the draft, an exact cache) are made when a selector asks, once a call.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.clock import Clock
from bcrbench.engine.decode import choose, chosen
from bcrbench.engine.model import Runtime
from bcrbench.engine.probe import lent_rows
from bcrbench.engine.steps import stepper
from bcrbench.reuse.segments import Segment


@dataclass
class RepairView:
    """One call's served cache of M rows, before its last prompt token runs.

    `ids` are the M + 1 prompt ids, `segments` the prompt's, `exact[j]` tells whether row j is exact already (its
    provenance, not a measurement), `index` counts the run's repaired calls from 0, `seed` is the coin's, `fill` how
    full the anchor pool is for this call, 0 to 1, `clock` the call's.
    """

    runtime: Runtime
    cache: SlotCache
    ids: list[int]
    segments: list[Segment]
    exact: list[bool]
    index: int = 0
    seed: int = 0
    fill: float = 0.0
    draft_tokens: int = 2
    clock: Clock | None = None

    @property
    def rows(self) -> int:
        """M, the rows that generation starts from."""
        return len(self.ids) - 1

    def stage(self, name: str) -> AbstractContextManager[None]:
        """A named stage of the call's clock."""
        return self.clock.stage(name) if self.clock is not None else nullcontext()

    @cached_property
    def draft(self) -> Draft:
        """The draft on the cache as it is; leaves the cache as it was, byte for byte."""
        with self.stage("draft"):
            return make_draft(self)

    @cached_property
    def dense(self) -> SlotCache:
        """An exact cache of the same ids: what transplant copies from and the oracle compares with."""
        cache = self.runtime.new_cache(len(self.ids))
        self.runtime.run(self.ids, range(len(self.ids)), cache)
        return cache


@dataclass(frozen=True)
class Start:
    """How generation starts on an assembled cache.

    `ids` are the tokens generated so far (all but the last have rows), `rows` what a repair chose, in ascending
    order, `touched` the first row that anything was written to, `skipped` why a repair did not engage, `refused` why
    the assembled cache is not to be used at all.
    """

    ids: list[int]
    rows: list[int] = field(default_factory=list)
    transplanted: bool = False
    draft_ids: list[int] | None = None
    skipped: str | None = None
    refused: str | None = None
    touched: int = sys.maxsize


@dataclass(frozen=True)
class Draft:
    """The draft's tokens, their top-1 probabilities, and the queries of its k rows.

    `queries[l]` is [heads, k, head_dim]: the prompt's last token, then the first k - 1 generated ones (paper Alg. 2).
    """

    ids: list[int]
    confidence: list[float]
    queries: Tensor


@torch.inference_mode()
def make_draft(view: RepairView) -> Draft:
    """Generate `draft_tokens` greedily on the assembled cache, recording queries, and roll everything back.

    Nothing waits for the device before the end. Raises RunFailed for a logit that is no finite number.
    """
    runtime, start, count = view.runtime, view.rows, view.draft_tokens
    queries = runtime.new_queries(count)
    token = torch.tensor(view.ids[-1:], device=runtime.device)
    told: list[Tensor] = []
    with lent_rows(view.cache, start, start + count):
        view.cache.length = start
        step = stepper(runtime, view.cache)
        for place in range(count):
            logits = step(token, start + place, queries[:, :, place])
            token, read = choose(logits)
            told.append(torch.cat((read.double(), torch.softmax(logits, dim=0).amax(0, keepdim=True).double())))
    ids, confidence = zip(*torch.stack(told).tolist())
    return Draft([chosen(one) for one in ids], list(confidence), queries)
