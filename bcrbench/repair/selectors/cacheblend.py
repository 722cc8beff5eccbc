"""`cacheblend`: how far a row's check layer is off (Yao et al., 2025; paper App. D and H).

CacheBlend checks layer 1, counted from 0: the first whose keys and values depend on other tokens. A probe runs the
model up to there over all rows, with exact keys and values, and compares. The set is then the same in all layers.

Its third rule is left out: to run, besides the budget, every token that no cached piece covers. Here no such token
exists. The served cache is put together from stored pieces up to the prompt's last token, and that one runs in every
repair anyway. Taking rows for uncovered because some lookup misses them would run three quarters of the prompt and
call a prefill CacheBlend (App. H), so the budget is a share of all M rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.probe import first_layers
from bcrbench.errors import UserError, unknown
from bcrbench.repair.selectors.base import Selector
from bcrbench.repair.view import RepairView

CHECK = 1  # the check layer, counted from 0

Variant = Literal["paper", "released", "lmcache-v1"]


@dataclass(frozen=True)
class CacheBlend(Selector):
    """Squared deviation at the check layer, summed over heads and channels.

    | variant | compares | leaves behind |
    | --- | --- | --- |
    | `paper` | values | nothing |
    | `released` | values | layers 0 and 1 of all M rows fresh: its code runs them in full and keeps them (1) |
    | `lmcache-v1` | keys, after the rotary embedding | nothing: of the check layer only selected rows are kept |

    (1) Written where rows are not exact yet: the others are fresh as they are, and an agent keeps its exact prefix.

    Not reproduced: the released codes' causal mask, which shows scattered rows their future, and
    sets that shrink from layer to layer, which the CacheBlend paper describes and neither code does.
    """

    variant: Variant = "paper"

    def __post_init__(self) -> None:
        if self.variant not in get_args(Variant):
            raise unknown("variant of cacheblend", self.variant, get_args(Variant))

    @torch.inference_mode()
    def scores(self, view: RepairView) -> Tensor:
        """Deviation of each row, [M]. `released` writes the probe's rows into the cache; ask it once a call.

        Raises UserError for a model without a check layer.
        """
        if view.runtime.layers <= CHECK:
            raise UserError(f"selector 'cacheblend': model has {view.runtime.layers} layer, expected at least 2")
        fresh = first_layers(view.runtime, view.ids[: view.rows], CHECK + 1)
        deviation = _deviation(fresh, view.cache, view.rows, self.variant == "lmcache-v1")
        if self.variant == "released":
            _keep(fresh, view)
        return deviation


def _deviation(fresh: SlotCache, served: SlotCache, rows: int, of_keys: bool) -> Tensor:
    new, old = (fresh.keys, served.keys) if of_keys else (fresh.values, served.values)
    gap = new[CHECK, 0, :, :rows].float() - old[CHECK, 0, :, :rows].float()
    return gap.square_().sum(dim=(0, 2))


def _keep(fresh: SlotCache, view: RepairView) -> None:
    places = torch.tensor(view.exact, device=fresh.keys.device).logical_not().nonzero()[:, 0]
    for served, new in ((view.cache.keys, fresh.keys), (view.cache.values, fresh.values)):
        served[: CHECK + 1].index_copy_(3, places, new.index_select(3, places))
