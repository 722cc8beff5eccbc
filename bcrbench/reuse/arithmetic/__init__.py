"""The arithmetic on whole segments: how far rows are from anchors', and rows with a blend of deviations put in place.

Two of one meaning: `plain` in PyTorch for any device and type, which is the reference, and `fused` for float32 on a
CPU, which passes once over what it reads.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch

from bcrbench.reuse.arithmetic.base import Arithmetic, Correction, Gaps, Turn

__all__ = ["Arithmetic", "Correction", "Gaps", "Turn", "pick"]


def pick(device: Any, dtype: torch.dtype) -> Arithmetic:
    """The fastest arithmetic for rows of a type on a device; `name` is what a log says."""
    if torch.device(device).type == "cpu" and dtype == torch.float32 and find_spec("numba") is not None:
        from bcrbench.reuse.arithmetic.fused import Fused

        return Fused()
    from bcrbench.reuse.arithmetic.plain import Plain

    return Plain()
