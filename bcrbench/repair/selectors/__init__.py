"""Selectors by name: one file each, one line here; outside packages register under `bcrbench.selectors`.

Every entry is a dataclass whose fields are the parameters that a condition may set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from bcrbench.registry import Registry

if TYPE_CHECKING:
    from bcrbench.repair.selectors.base import Selector

SELECTORS: Registry[Callable[..., Selector]] = Registry(
    "selector",
    {
        "cacheblend": "bcrbench.repair.selectors.cacheblend:CacheBlend",
        "coin": "bcrbench.repair.selectors.coin:Coin",
        "draft": "bcrbench.repair.selectors.draft:DraftAttention",
        "epic": "bcrbench.repair.selectors.epic:Epic",
        "frontier": "bcrbench.repair.selectors.frontier:Frontier",
        "oracle": "bcrbench.repair.selectors.oracle:Oracle",
        "query": "bcrbench.repair.selectors.query:QueryAttention",
    },
    group="bcrbench.selectors",
)
