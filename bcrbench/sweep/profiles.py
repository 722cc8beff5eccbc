"""Which profile of a recipe fits this machine. `python -m bcrbench.sweep.profiles auto` prints it."""

from __future__ import annotations

import sys

from bcrbench.errors import UserError, unknown
from bcrbench.sweep.recipe import PROFILES

LARGE_GB = 60  # 8 billion parameters in half precision, caches and an anchor pool; 7 billion in single precision


def chosen(name: str) -> str:
    """`paper` or `demo`; `auto` is `paper` where a large CUDA device is. Raises UserError for any other name."""
    if name == "auto":
        return PROFILES[0] if _largest_gb() >= LARGE_GB else PROFILES[1]
    if name not in PROFILES:
        raise unknown("profile", name, [*PROFILES, "auto"])
    return name


def _largest_gb() -> float:
    """Memory of the largest CUDA device here, in GB; 0 without one."""
    import torch

    if not torch.cuda.is_available():
        return 0.0
    return max(torch.cuda.get_device_properties(k).total_memory for k in range(torch.cuda.device_count())) / 1e9


if __name__ == "__main__":
    try:
        print(chosen(*sys.argv[1:2] or ["auto"]))
    except UserError as error:
        print(f"bcrbench: {error}", file=sys.stderr)
        sys.exit(2)
