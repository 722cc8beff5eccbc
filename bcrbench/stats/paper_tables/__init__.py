"""The paper's tables from logs: the registry, one line a table. A builder takes a `Build` and returns its panels."""

from __future__ import annotations

from collections.abc import Callable

from bcrbench.registry import Registry
from bcrbench.stats.paper_tables.build import Build
from bcrbench.stats.paper_tables.panel import Panel

__all__ = ["TABLES", "Build", "Panel"]

_HERE = "bcrbench.stats.paper_tables"

TABLES: Registry[Callable[[Build], list[Panel]]] = Registry(
    "table",
    {
        "1": f"{_HERE}.table01:build",
        "2": f"{_HERE}.table02:build",
        "3": f"{_HERE}.table03:build",
        "4": f"{_HERE}.table04:build",
        "5": f"{_HERE}.table05:build",
        "6": f"{_HERE}.table06:build",
        "7": f"{_HERE}.table07:build",
        "8": f"{_HERE}.table08:build",
        "9": f"{_HERE}.table09:build",
        "10": f"{_HERE}.table10:build",
        "11": f"{_HERE}.table11:build",
        "12": f"{_HERE}.table12:build",
        "13": f"{_HERE}.table13:build",
        "14": f"{_HERE}.table14:build",
        "15": f"{_HERE}.table15:build",
    },
)
