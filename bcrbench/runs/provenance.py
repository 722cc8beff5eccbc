"""Where a number came from: versions, code, device, host."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import bcrbench

_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "numba", "datasets", "flash-attn")


def packages() -> dict[str, str]:
    """Installed versions of what can change an outcome; absent ones are left out."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"python": platform.python_version(), **found}


def code() -> dict[str, Any]:
    """Version, and commit and dirty flag when this package's own files are under git (never the user's repository)."""
    here = Path(bcrbench.__file__).parent
    facts: dict[str, Any] = {"version": bcrbench.__version__, "commit": None, "dirty": None}
    if _git(here, "ls-files", "--error-unmatch", "__init__.py") is None:
        return facts
    facts["commit"] = _git(here, "rev-parse", "HEAD")
    changes = _git(here, "status", "--porcelain", "--", ".")
    facts["dirty"] = None if changes is None else bool(changes)
    return facts


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def device(place: Any) -> dict[str, Any]:
    """The device that computed, its name, and how many threads it used."""
    import torch

    name = torch.cuda.get_device_name(place) if place.type == "cuda" else platform.processor() or platform.machine()
    return {"kind": place.type, "name": name, "threads": torch.get_num_threads()}


def host() -> dict[str, Any]:
    """The machine, without its name or any path."""
    return {"system": platform.system(), "release": platform.release(), "machine": platform.machine(),
            "cores": os.cpu_count()}  # fmt: skip
