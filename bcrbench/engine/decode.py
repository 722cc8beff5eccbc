"""Greedy decoding, batch 1, on a slot cache."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.model import Runtime
from bcrbench.engine.steps import stepper
from bcrbench.errors import RunFailed


def most_likely(logits: Tensor) -> int:
    """The greedy token of logits [vocab]. Raises RunFailed for one that is no number, as half precision may give."""
    best = int(torch.argmax(logits))
    if not math.isfinite(logits[best]):  # argmax takes a NaN for the largest
        raise RunFailed(f"the model gives the logit {float(logits[best])}, expected finite ones; try --dtype float32")
    return best


def choose(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The greedy token [1] of logits [vocab], left on the device, and the same to be read by `chosen` later."""
    token = torch.argmax(logits, dim=0, keepdim=True)
    return token, torch.where(torch.isfinite(logits[token]), token, -1 - token)


def chosen(told: float) -> int:
    """A token that `choose` told. Raises RunFailed where its logit is no finite number."""
    if told < 0:
        raise RunFailed("the model gives a logit that is no finite number, expected finite ones; try --dtype float32")
    return int(told)


@dataclass(frozen=True)
class Generation:
    """Generated ids, the stopping token included, and why they end."""

    ids: list[int]
    finish: Literal["stop", "length"]


@torch.inference_mode()
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
    given; none at all makes every generation `limit` tokens long, and then no step waits for its token.
    Raises RunFailed for a logit that is no finite number.
    """
    stops = runtime.stop_ids() if stops is None else stops
    ids = list(begun[:limit])
    left = limit - len(ids)
    if ids[-1] not in stops and left > 0:
        cache.reserve(start + limit - 1)
        ids += _continue(runtime, cache, ids[-1], start + len(ids) - 1, left, stops)
    return Generation(ids, "stop" if ids[-1] in stops else "length")


def _continue(
    runtime: Runtime, cache: SlotCache, last: int, position: int, count: int, stops: frozenset[int]
) -> list[int]:
    """Up to `count` tokens after `last`, which runs first; one read of each where it may be a stop, else one of all."""
    step = stepper(runtime, cache)
    token = torch.tensor([last], device=runtime.device)
    told: list[Tensor] = []
    for place in range(position, position + count):
        token, read = choose(step(token, place))
        told.append(read)
        if stops and chosen(int(read)) in stops:
            break
    return [chosen(one) for one in torch.cat(told).tolist()]
