"""Recipes: a sweep written down in YAML, by name or path.

Keys: `about` (text), `settings` (shared by all runs), `cells` (a list of settings that differ, one cell each) and
`conditions`. A recipe's name may be written without the leading zero (`table3` finds table03.yaml).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import bcrbench
from bcrbench.errors import UserError, told, unknown
from bcrbench.settings import check_text, read_yaml

_KEYS = {"about": str, "settings": dict, "cells": list, "conditions": list}


@dataclass(frozen=True)
class Recipe:
    """A sweep as written: shared settings, the cells' own, and the condition strings."""

    name: str
    about: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    cells: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    conditions: list[str] = field(default_factory=list)


def folder() -> Path:
    """Where the recipes lie: inside an installed package, or beside it in a checkout."""
    inside = Path(str(files("bcrbench"))) / "recipes"
    return inside if inside.is_dir() else Path(bcrbench.__file__).parent.parent / "recipes"


def names() -> list[str]:
    """Names of the recipes that ship."""
    return sorted(path.stem for path in folder().glob("*.yaml"))


def find(name: str) -> Path:
    """The file of a recipe given by path or name. Raises UserError with the nearest match."""
    check_text("recipe", name)
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return path
    short = re.fullmatch(r"table(\d)", name)
    wanted = f"table0{short[1]}" if short else name
    if wanted not in names():
        raise unknown("recipe", name, names())
    return folder() / f"{wanted}.yaml"


def read(name: str) -> Recipe:
    """Read a recipe. Raises UserError naming file, key, and what was expected."""
    path = find(name)
    raw = read_yaml(path, "recipe")
    for key, value in raw.items():
        if key not in _KEYS:
            raise unknown(f"key in recipe {path.name}", str(key), _KEYS)
        if not isinstance(value, _KEYS[key]):
            raise UserError(f"recipe {path}: {key}: {type(value).__name__}, expected {_KEYS[key].__name__}")
    for number, cell in enumerate(raw.get("cells", [])):
        if not isinstance(cell, dict):
            raise UserError(f"recipe {path}: cells[{number}]: {type(cell).__name__}, expected a mapping of settings")
    if not raw.get("conditions"):
        raise UserError(f"recipe {path}: conditions: none given, expected a list of condition strings")
    for number, condition in enumerate(raw["conditions"]):
        if not isinstance(condition, str):
            raise UserError(f"recipe {path}: conditions[{number}]: {told(condition)}, expected a condition string")
    if not raw.get("cells", [{}]):
        raise UserError(f"recipe {path}: cells: none given, expected at least one, or no such key")
    return Recipe(path.stem, **raw)
