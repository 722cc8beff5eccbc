"""What this machine can do: a matrix product's rate and a copy's, measured; and its name without its host's."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from bcrbench.engine.clock import Clock

TRIES = 5


@dataclass(frozen=True)
class Rates:
    """FLOPs a second of a large square product, bytes a second of a large copy (read and written, both counted)."""

    flops: float
    bytes: float


@torch.inference_mode()
def measure(device: torch.device, dtype: torch.dtype, side: int | None = None) -> Rates:
    """The best of a few tries each; `side` is the matrices', 1,024 on a CPU and 8,192 on CUDA unless given.

    The copied tensor has 64 times as many numbers as a matrix, far more than a cache holds at the usual sides.
    """
    side = side or (8192 if device.type == "cuda" else 1024)
    left = torch.randn(side, side, device=device).to(dtype)
    right, product = left.T.contiguous(), torch.empty_like(left)
    source = torch.zeros(64 * side * side if device.type == "cpu" else 8 * side * side, dtype=dtype, device=device)
    target = torch.ones_like(source)
    clock = Clock(device)
    fastest = _best(clock, lambda: torch.mm(left, right, out=product))
    copied = _best(clock, lambda: target.copy_(source))
    return Rates(2.0 * side**3 / fastest, 2.0 * source.numel() * source.element_size() / copied)


def _best(clock: Clock, work: Callable[[], object]) -> float:
    """Seconds of the fastest of a few runs, after one that is not counted."""
    work()
    taken = []
    for _ in range(TRIES):
        clock.reset()
        work()
        taken.append(clock.elapsed() / 1e3)
    return max(min(taken), 1e-9)


def name_of(device: torch.device) -> str:
    """The processor's or the GPU's model."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        listed = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        listed = ""
    found = re.search(r"^model name\s*:\s*(.+)$", listed, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def slug(name: str, cores: int | None) -> str:
    """A machine's name as a part of a file's: lower case, words joined by hyphens."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "-".join([*words, *([f"{cores}-cores"] if cores else [])])
