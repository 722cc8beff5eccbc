"""The registry of tools: what may be run on an agent's response; one line a tool."""

from __future__ import annotations

from typing import Callable

from bcrbench.registry import Registry
from bcrbench.tools.base import Tool

TOOLS: Registry[Callable[[], Tool]] = Registry(
    "tool",
    {
        "program": "bcrbench.tools.program:Program",
        "doctests": "bcrbench.tools.doctests:Doctests",
        "pages": "bcrbench.tools.pages:LookUp",
    },
    group="bcrbench.tools",
)
