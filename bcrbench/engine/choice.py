"""Which kernel attends: what `--kernel` forces, or the fastest for the device, the type and the threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from bcrbench.engine.attention import KERNELS
from bcrbench.errors import UserError

_WHOLE, _ONE, _SOME = "whole prompt", "one row", "other rows"
_BY_SHAPE = {
    "sdpa": {_WHOLE: "sdpa, mask", _ONE: "sdpa, mask", _SOME: "sdpa, mask"},
    "tiles": {_WHOLE: "sdpa, causal", _ONE: "sdpa", _SOME: "sdpa, masked tiles of rows"},
    "blocks": {_WHOLE: "sdpa, causal", _ONE: "compiled loop", _SOME: "blocks of keys"},
    "flex": {_WHOLE: "sdpa, causal", _ONE: "sdpa", _SOME: "flex, block mask by position"},
    "flash": {_WHOLE: "flash, span", _ONE: "flash, span", _SOME: "flash, spans of one length a call"},
}


@dataclass(frozen=True)
class Choice:
    """A kernel's name, and why it was not the one that `auto` would rather take."""

    name: str
    why: str | None = None

    def told(self) -> dict[str, Any]:
        """What a log says: the kernel, and how it attends by the shape of the row set."""
        return {"kernel": self.name, "kernel_by_shape": _BY_SHAPE[self.name], "kernel_why": self.why}


def pick_kernel(name: str, device: torch.device, dtype: torch.dtype = torch.float32, threads: int = 1) -> Choice:
    """The kernel of a name. `auto` is FlexAttention on CUDA, and on a CPU key blocks, whose loops run on one thread.

    Raises UserError for one that cannot run here.
    """
    if name == "auto":
        return _fastest(device, dtype, threads)
    KERNELS.check(name)
    lacks = _lacks(name, device, dtype)
    if lacks is not None:
        raise UserError(f"--kernel {name!r}: {lacks}")
    return Choice(name)


def _fastest(device: torch.device, dtype: torch.dtype, threads: int) -> Choice:
    wanted = "flex" if device.type == "cuda" else "blocks"
    lacks = _lacks(wanted, device, dtype)
    if lacks is None and wanted == "blocks" and threads > 1:
        lacks = f"its loops run on one thread, here are {threads}"
    return Choice(wanted) if lacks is None else Choice("tiles", f"not {wanted}: {lacks}")


def _lacks(name: str, device: torch.device, dtype: torch.dtype) -> str | None:
    """What a kernel lacks here, or None."""
    if name in ("flex", "flash") and device.type != "cuda":
        return f"needs a CUDA device, this is {device.type}"
    if name == "blocks" and (device.type, dtype) != ("cpu", torch.float32):
        return f"needs float32 on a CPU, this is {str(dtype).removeprefix('torch.')} on {device.type}"
    if name == "flash":
        return _missing("flash_attn", "flash-attn is not installed; pip install 'bcrbench[gpu]'")
    if name == "flex":
        return _missing("triton", "triton is not installed, without which nothing is compiled")
    return None


def _missing(module: str, told: str) -> str | None:
    try:
        __import__(module)
    except ImportError:
        return told
    return None
