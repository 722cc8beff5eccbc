"""How much memory a run took: the process's resident set at its peak, CUDA's allocator, the weights, the pool.

Linux lets a process set its high-water mark back, so that the mark is the run's own. Where that is not allowed, or the
system has no such file, the mark is of the process's whole life, and the record says so.
"""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path
from typing import Any, Protocol

from bcrbench.runs.schema import Memory

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
_RESET_MARK = "5"  # proc(5): reset the peak resident set size to the current value


class Held(Protocol):
    """What a pool of anchors says of its buffers."""

    @property
    def bytes(self) -> int:
        """Bytes held now."""

    @property
    def peak_bytes(self) -> int:
        """The most bytes held at one time."""

    @property
    def evicted_for_bytes(self) -> int:
        """Anchors given up because the budget of bytes was reached."""


class Meter:
    """Peaks since it was made. `device` is a torch device's name; only CUDA has an allocator to ask."""

    def __init__(self, device: str = "cpu") -> None:
        self._cuda = device if device.startswith("cuda") else None
        self._own = _set_back()
        if self._cuda is not None:
            import torch

            torch.cuda.reset_peak_memory_stats(self._cuda)

    def read(self, weights: int, pool: Held | None = None) -> Memory:
        """What was reached so far, beside bytes of weights and of the pool, where there is one."""
        return Memory(
            peak=_mark() if self._own else _of_life(),
            peak_since="run" if self._own else "process",
            weights=weights,
            **({} if pool is None else _held(pool)),
            **({} if self._cuda is None else _allocated(self._cuda)),
        )


def weight_bytes(model: Any) -> int:
    """Bytes of a torch model's parameters and buffers; tied ones count once."""
    return sum(part.numel() * part.element_size() for parts in (model.parameters(), model.buffers()) for part in parts)


def _held(pool: Held) -> dict[str, int]:
    return {"pool": pool.bytes, "pool_peak": pool.peak_bytes, "evicted_for_bytes": pool.evicted_for_bytes}


def _allocated(device: str) -> dict[str, int]:
    import torch

    return {
        "device_peak": torch.cuda.max_memory_allocated(device),
        "device_reserved": torch.cuda.max_memory_reserved(device),
    }


def _set_back() -> bool:
    """Set the process's high-water mark to what is resident now; whether that was possible."""
    try:
        _CLEAR.write_text(_RESET_MARK, encoding="ascii")
        _mark()
    except (OSError, LookupError):
        return False
    return True


def _mark() -> int:
    """The high-water mark, bytes. Raises OSError or LookupError where the system tells none."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", _STATUS.read_text(encoding="ascii"), re.MULTILINE)
    if found is None:
        raise LookupError(f"{_STATUS}: no VmHWM")
    return 1024 * int(found[1])


def _of_life() -> int:
    """The peak of the process's whole life, bytes; the call's unit is kilobytes, but bytes on macOS."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
