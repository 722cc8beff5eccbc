"""Greedy decoding, batch 1, on a slot cache."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.model import Runtime
from bcrbench.errors import RunFailed


def most_likely(logits: Tensor) -> int:
    """The greedy token of logits [vocab]. Raises RunFailed for one that is no number, as half precision may give."""
    best = int(torch.argmax(logits))
    if not math.isfinite(logits[best]):  # argmax takes a NaN for the largest
        raise RunFailed(f"the model gives the logit {float(logits[best])}, expected finite ones; try --dtype float32")
    return best


@dataclass(frozen=True)
class Generation:
    """Generated ids, the stopping token included, and why they end."""

    ids: list[int]
    finish: Literal["stop", "length"]


def greedy(
    runtime: Runtime,
    cache: SlotCache,
    begun: list[int],
    start: int,
    limit: int,
    stops: frozenset[int] | None = None,
) -> Generation:
    """Continue from the tokens generated so far, which take positions `start`, `start` + 1, ...

    All of them but the last have their rows in the cache. Ends at a stop token or after `limit` tokens, also where
    more were begun; the last token is never run, so its row is not in the cache. `stops` are the model's own unless
    given; none at all makes every generation `limit` tokens long.
    """
    stops = runtime.stop_ids() if stops is None else stops
    ids = list(begun[:limit])
    while ids[-1] not in stops and len(ids) < limit:
        logits = runtime.run([ids[-1]], [start + len(ids) - 1], cache)
        ids.append(most_likely(logits))
    return Generation(ids, "stop" if ids[-1] in stops else "length")
