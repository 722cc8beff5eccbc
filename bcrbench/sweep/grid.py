"""From a recipe and flags to the list of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bcrbench.errors import UserError, told
from bcrbench.settings import FILE, from_flags, from_folder, resolve
from bcrbench.sweep.axes import cells, chosen, conditions, settings_of
from bcrbench.sweep.plan import Plan, plan
from bcrbench.sweep.recipe import Recipe, read

DEFAULT = ["dense", "kvcomm"]


def expand(
    name: str | None, typed: list[str], flags: dict[str, Any], axes: Mapping[str, str | None] | None = None
) -> list[Plan]:
    """One plan a cell and condition; typed conditions replace the recipe's, axes vary what is there.

    Raises UserError before anything runs.
    """
    recipe = read(name) if name is not None else Recipe("flags")
    given_axes = chosen(axes or {})
    typed_flags = from_flags(flags)
    wanted = conditions(typed or recipe.conditions, given_axes) or DEFAULT
    decided = settings_of(given_axes)
    plans: list[Plan] = []
    for cell in cells(recipe.cells, given_axes):
        _refuse_clash(cell, typed_flags, decided)
        layers = [
            (FILE, from_folder()),
            (f"recipe {recipe.name}", {**recipe.settings, **cell}),
            ("flags", typed_flags),
        ]
        settings, given = resolve(layers)
        plans += plan(settings, wanted, {**given, "recipe": name} if name is not None else given)
    return plans


def _refuse_clash(cell: dict[str, Any], flags: dict[str, Any], decided: dict[str, str]) -> None:
    """A flag that is said once for all cells cannot be an axis, too."""
    for key, axis in decided.items():
        if key in flags and flags[key] != cell[key]:
            option = f"--{key.replace('_', '-')}"
            raise UserError(f"{option} {told(flags[key])}: --{axis} sets it to {cell[key]!r}, expected one of the two")
