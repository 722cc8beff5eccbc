"""What the paper prints: package data by table, rows and columns named as ours."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from bcrbench.stats.paper_tables.panel import Column, Line, Panel

_FOLDER = "paper"


@cache
def printed(number: str) -> dict[str, Any]:
    """A table's printed values, by panel, row and column, in the paper's units."""
    path = files("bcrbench.stats").joinpath(f"{_FOLDER}/table{int(number):02}.json")
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values


def source(number: str) -> str:
    """Where the printed values are from."""
    return f"the paper's figures, in braces: {printed(number)['source']}"


def paper_value(number: str, panel: Panel, line: Line, column: Column) -> Any:
    """The printed value of a cell, in our unit; None where the paper prints none."""
    row = printed(number)["panels"].get(panel.name, {}).get(line.name, {})
    return line.form(column).read(row.get(column.key))
