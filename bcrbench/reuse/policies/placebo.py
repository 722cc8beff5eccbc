"""Placebo: Dense through another exact path, so that the rate at which numerics alone flip answers is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from bcrbench.engine.attention import masked
from bcrbench.engine.cache import SlotCache
from bcrbench.engine.model import Runtime
from bcrbench.reuse.policies.base import setting
from bcrbench.reuse.policies.dense import Dense


@dataclass(frozen=True)
class Placebo(Dense):
    """A prefill in pieces of `piece` rows through the masked reference kernel: exact in another order of sums."""

    summary: ClassVar[str] = "Dense in pieces through another kernel: what numerics alone flip"
    source: ClassVar[str] = "App. J"
    tokens: Literal["whole", "merged"] = setting("whole")
    piece: int = setting(32, 1, 4096)

    def prefill(self, runtime: Runtime, ids: list[int], cache: SlotCache) -> Tensor:
        """Prefill piece by piece; returns the last token's logits [vocab]."""
        for begin in range(0, len(ids), self.piece):
            rows = range(begin, min(begin + self.piece, len(ids)))
            logits = runtime.run([ids[row] for row in rows], rows, cache, kernel=masked)
        return logits
