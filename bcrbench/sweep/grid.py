"""From a recipe and flags to the list of runs."""

from __future__ import annotations

from typing import Any

from bcrbench.settings import FILE, from_flags, from_folder, resolve
from bcrbench.sweep.plan import Plan, plan
from bcrbench.sweep.recipe import Recipe, read

DEFAULT = ["dense", "kvcomm"]


def expand(name: str | None, conditions: list[str], flags: dict[str, Any]) -> list[Plan]:
    """One plan a cell and condition; typed conditions replace the recipe's. Raises UserError before anything runs."""
    recipe = read(name) if name is not None else Recipe("flags")
    wanted = conditions or recipe.conditions or DEFAULT
    plans: list[Plan] = []
    for cell in recipe.cells:
        layers = [
            (FILE, from_folder()),
            (f"recipe {recipe.name}", {**recipe.settings, **cell}),
            ("flags", from_flags(flags)),
        ]
        settings, given = resolve(layers)
        plans += plan(settings, wanted, {**given, "recipe": name} if name is not None else given)
    return plans
