"""Making selected rows fresh, and the first token's logits from the mended cache (paper App. B).

`recompute` is what can be deployed: the rows run inside the cache as it is, so they are exact only as far as what
stands before them is. `transplant` copies them from an exact cache, which nobody has in service: it is how the
unit-of-choice curve is measured (Table 8), and it parts the worth of a row set from the cost of stale neighbours.
"""

from __future__ import annotations

from typing import Callable, Sequence

import torch
from torch import Tensor

from bcrbench.repair.view import RepairView

Operator = Callable[[RepairView, Sequence[int]], Tensor]


def recompute(view: RepairView, rows: Sequence[int]) -> Tensor:
    """Run ascending `rows` and the prompt's last token as one pass; the logits [vocab] of the latter, float32.

    In every layer the rows overwrite their slots before attention is taken, so they see each other mended.
    """
    places = [*rows, view.rows]
    return view.runtime.run([view.ids[j] for j in places], places, view.cache)


@torch.inference_mode()
def transplant(view: RepairView, rows: Sequence[int]) -> Tensor:
    """Copy `rows` of all layers from `view.dense`, then run the prompt's last token; its logits [vocab], float32."""
    if rows:
        places = torch.tensor(list(rows), device=view.cache.keys.device)
        for mended, exact in ((view.cache.keys, view.dense.keys), (view.cache.values, view.dense.values)):
            mended.index_copy_(3, places, exact.index_select(3, places))
    return recompute(view, [])
