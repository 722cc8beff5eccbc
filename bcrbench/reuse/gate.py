"""The gate: may this segment be predicted? (paper Eq. 2)

The entropy of the softmax of negative distances to the anchors, against gamma times its largest value. Distances are
L2 norms over all layers, heads and rows, in float32: half-precision norms of this size tie.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from typing import Any

import torch
from torch import Tensor

from bcrbench.reuse.anchors import Bucket
from bcrbench.reuse.arithmetic import Gaps
from bcrbench.runs.schema import Gate

NUCLEUS = 0.9
_TINY = 1e-40


def decide(segment: str, tokens: int, bucket: Bucket, gamma: float, gaps: Callable[[], Gaps]) -> Gate:
    """Gate one segment of so many rows; bumps activation counts when sharable.

    `gaps` gives those of its base values to the anchors that cover it, and is asked only where they decide. New (to
    be prefilled) when the pool holds fewer than two anchors, when fewer than two are at least as long, or when the
    entropy exceeds gamma * log2(available). At gamma 1 or more the entropy test is off: it could only fire by
    rounding, and the paper calls this setting "never refuse" (section 4.1).
    """
    available = bucket.covering(tokens)
    facts: dict[str, Any] = {
        "segment": segment,
        "rows": tokens,
        "anchors": len(bucket.anchors),
        "available": len(available),
    }
    if len(bucket.anchors) <= 1:
        return Gate(decision="new", why="pool", **facts)
    if len(available) <= 1:
        return Gate(decision="new", why="length", **facts)
    found = gaps().total.sqrt()
    similarity = torch.softmax(-found, dim=0)
    entropy = float(-(similarity * torch.log2(similarity + _TINY)).sum())
    limit = gamma * log2(len(available))
    facts |= {"entropy": entropy, "limit": limit, "distances": found.tolist()}
    if gamma < 1.0 and entropy > limit:
        return Gate(decision="new", why="entropy", **facts)
    for index in activated(similarity):
        bucket.anchors[available[index]].count += 1
    return Gate(decision="sharable", why="ok", **facts)


def activated(similarity: Tensor) -> list[int]:
    """Indexes of the nucleus of 0.9, as released: when the first one alone exceeds it, all are activated."""
    order = torch.argsort(similarity, descending=True)
    inside = torch.nonzero(torch.cumsum(similarity[order], dim=0) < NUCLEUS).flatten()
    last = int(inside[-1]) if len(inside) else len(order) - 1
    return [int(i) for i in order[: last + 1]]
