"""Greedy decoding, batch 1, on a slot cache (DESIGN 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.model import Runtime


@dataclass(frozen=True)
class Generation:
    """Generated ids, the stopping token included, and why they end."""

    ids: list[int]
    finish: Literal["stop", "length"]


def greedy(runtime: Runtime, cache: SlotCache, logits: Tensor, start: int, limit: int) -> Generation:
    """Continue from the logits [vocab] of position start - 1; tokens take positions start, start + 1, ...

    Ends at a stop token or after `limit` tokens. The last token is never run, so its row is not in the cache.
    """
    stops = runtime.stop_ids()
    ids = [int(torch.argmax(logits))]
    while ids[-1] not in stops and len(ids) < limit:
        logits = runtime.run([ids[-1]], [start + len(ids) - 1], cache)
        ids.append(int(torch.argmax(logits)))
    return Generation(ids, "stop" if ids[-1] in stops else "length")
