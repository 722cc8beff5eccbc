"""Run generated code where it can do no harm, and judge it where it has no say (../docs/sandbox.md).

Nothing runs on import: `open_sandbox()` starts the first child, to find out what this machine allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bcrbench.grading.sandbox.sandbox import Sandbox, open_sandbox
    from bcrbench.grading.sandbox.types import Evaluated, Judged, Limits, Outcome, Value

__all__ = ["Evaluated", "Judged", "Limits", "Outcome", "Sandbox", "Value", "open_sandbox"]


def __getattr__(name: str) -> Any:
    # the children import their part of this package and must start fast
    if name not in __all__:
        raise AttributeError(name)
    from importlib import import_module

    here = "sandbox" if name in ("Sandbox", "open_sandbox") else "types"
    return getattr(import_module(f"{__name__}.{here}"), name)
