"""All that a recipe says, checked before its first run: conditions, probes, claims, and what it renders.

The schema (sweep/recipe.py) knows names and types; what a condition or a claim may hold is known to the part that runs
it, and a mistake should not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from bcrbench.errors import UserError, unknown
from bcrbench.probe.options import UnitOptions, options_of
from bcrbench.sweep.recipe import Claim, Recipe, find, parts, read, spread
from bcrbench.sweep.recipe_errors import Keys, place


def check_recipe(name: str, _seen: set[Path] | None = None) -> None:
    """Raise UserError, with file and line, for a mistake in any part of a recipe or of those that it uses."""
    path, seen = find(name), _seen if _seen is not None else set()
    if path in seen:
        return
    seen.add(path)
    recipe = read(name)
    for other in recipe.uses:
        check_recipe(other, seen)
    for keys, text in _conditions(recipe):
        with _placed(path, keys):
            _check_condition(text)
    for keys, part in parts(recipe):
        if part.probe is not None:
            with _placed(path, _of_probe([*keys, "probe"], part.probe)):
                options_of(part.probe)
        for number, claim in enumerate(part.claims or []):
            _check_claim(path, [*keys, "claims", number], claim)
    _check_renders(path, recipe)


def _conditions(recipe: Recipe) -> Iterator[tuple[Keys, str]]:
    """Every condition string as written, and where."""
    for keys, part in parts(recipe):
        for number, text in enumerate(part.conditions or []):
            yield [*keys, "conditions", number], text
        for index, cell in enumerate(part.cells or []):
            for number, text in enumerate(cell.get("conditions") or []):
                yield [*keys, "cells", index, "conditions", number], text


@contextmanager
def _placed(path: Path, keys: Keys) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise UserError(f"{place(path, keys)}: {error}") from error


def _check_condition(text: str) -> None:
    from bcrbench.conditions import parse

    for one in spread([text]):
        parse(one)


def _of_probe(keys: Keys, probe: dict[str, Any]) -> Keys:
    """Where a probe's mistake is: at its first option that is unknown, else at all of it."""
    known = {spot.name for spot in fields(UnitOptions)}
    return [*keys, *[name for name in probe if name not in known][:1]]


def _check_claim(path: Path, keys: Keys, claim: Claim) -> None:
    from bcrbench.stats.claims import judge

    made = judge.Claim(claim.text, claim.kind, claim.parameters)
    try:
        judge.check(made)
    except UserError:  # lines cost time to find
        judge.check(made._replace(place=place(path, keys)))


def _check_renders(path: Path, recipe: Recipe) -> None:
    if not recipe.renders:
        return
    from bcrbench.stats.paper_tables import TABLES
    from bcrbench.stats.recipes.render import FIGURES

    known = {*TABLES.names(), *FIGURES}
    for number, name in enumerate(recipe.renders):
        if name not in known:
            raise unknown(f"table or figure in {place(path, ['renders', number])}", name, known)
