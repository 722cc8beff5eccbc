"""Repair: which rows of an assembled cache to make exact, and how (paper section 3).

Names are imported when they are asked for, so that listing them loads no model library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from bcrbench.registry import Registry

if TYPE_CHECKING:
    from bcrbench.repair.layouts import Layout
    from bcrbench.repair.operators import Operator

LAYOUTS: Registry[Callable[..., Layout]] = Registry(
    "layout",
    {
        "chunk": "bcrbench.repair.layouts:Chunk",
        "grow": "bcrbench.repair.layouts:Grow",
        "single": "bcrbench.repair.layouts:Single",
    },
    group="bcrbench.layouts",
)

OPERATORS: Registry[Operator] = Registry(
    "operator",
    {
        "recompute": "bcrbench.repair.operators:recompute",
        "transplant": "bcrbench.repair.operators:transplant",
    },
)
