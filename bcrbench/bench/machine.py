"""What this machine can do: a matrix product's rate and a copy's, measured; and its name without its host's."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from bcrbench.engine.clock import Clock

TRIES = 5
_MEMORY, _SHARE = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


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


def free_bytes(device: torch.device) -> int:
    """Memory that is free: the GPU's, or the system's and at most what is left of a control group's share."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB$", _MEMORY.read_text(encoding="ascii"), re.MULTILINE)
    except OSError:  # not Linux
        found = None
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    free = 1024 * int(found[1]) if found else half
    share = _number(_SHARE / "memory.max")
    return min(free, max(0, share - _number(_SHARE / "memory.current"))) if share else free


def _number(file: Path) -> int:
    """The number in a file; 0 for no file, and for one that says there is no limit."""
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


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
