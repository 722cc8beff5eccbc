"""The arithmetic on whole segments: how far rows are from anchors', and rows with a blend of deviations put in place.

Two of one meaning: `plain` in PyTorch for any device and type, which is the reference and is compiled on CUDA, and
`fused` for float32 on a CPU, which passes once over what it reads.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from bcrbench.reuse.arithmetic.base import Arithmetic, Correction, Gaps, Turn

__all__ = ["Arithmetic", "Correction", "Gaps", "Turn", "pick"]


@cache
def _compiled(device: torch.device) -> Arithmetic:
    """One a device and process: compiling takes seconds."""
    from bcrbench.reuse.arithmetic.plain import compiled

    return compiled(device)


def pick(device: Any, dtype: torch.dtype) -> Arithmetic:
    """The fastest arithmetic for rows of a type on a device; `name` is what a log says."""
    from bcrbench.reuse.arithmetic.plain import Plain

    place = torch.device(device)
    if place.type == "cuda":
        return _compiled(place)
    if dtype == torch.float32:
        from bcrbench.reuse.arithmetic.fused import Fused

        return Fused()
    return Plain()
