"""Recipes: a sweep written down in YAML, by name or path. docs/recipes.md lists the keys.

Everything stands once for all profiles; `paper` and `demo` change settings and replace what else they name. A recipe
that `uses` others has their runs first. A name may be written without the leading zero (`table3` finds table03.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

import bcrbench
from bcrbench.errors import UserError, told, unknown
from bcrbench.settings import check_text, read_yaml
from bcrbench.sweep.recipe_errors import Keys, check_settings, explained, place, spelled

PROFILES = ("paper", "demo")

Kind = Literal["below", "above", "level", "order", "faster", "line", "rows"]
Settings = dict[str, Any]
Some = Annotated[list[str], msgspec.Meta(min_length=1)]
Cells = Annotated[list[Settings], msgspec.Meta(min_length=1)]

_LISTS = ("ids", "conditions")  # settings whose one value is a list


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the paper says of a table: in words, and as something that logs can decide."""

    text: Annotated[str, msgspec.Meta(min_length=1)]
    kind: Kind
    parameters: dict[str, Any] = {}


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a profile may say: its settings are laid over the recipe's, all else takes the place of it."""

    settings: Settings = {}
    cells: Cells | None = None
    conditions: Some | None = None
    probe: dict[str, Any] | None = None
    claims: list[Claim] | None = None


class Profiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The recipe on one large GPU, with the paper's models, and on a laptop with the bundled one."""

    paper: Part = Part()
    demo: Part = Part()


class Recipe(Part, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A sweep as written. `renders` are the tables and figures that come of its runs, `uses` names other recipes."""

    about: str = ""
    renders: list[str] = []
    uses: list[str] = []
    profiles: Profiles | None = None


@dataclass(frozen=True)
class Entry:
    """A cell of a recipe and what runs there: conditions, or a probe of the unit of choice.

    `profile` is the one that was asked for, empty for a recipe that has none.
    """

    recipe: str
    settings: Settings
    conditions: tuple[str, ...] = ()
    probe: dict[str, Any] | None = None
    profile: str = ""


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
        raise unknown("recipe", name, [re.sub(r"^table0", "table", known) for known in names()])
    return folder() / f"{wanted}.yaml"


def read(name: str) -> Recipe:
    """Read a recipe. Raises UserError naming file, line, key, and what was expected."""
    path = find(name)
    raw = read_yaml(path, "recipe")
    try:
        recipe = msgspec.convert(raw, Recipe)
    except msgspec.ValidationError as error:
        raise explained(path, raw, error, _keys_at, get_args(Kind)) from error
    _check(path, recipe)
    return recipe


def _keys_at(keys: Keys) -> tuple[str, ...]:
    """The keys that may stand at a place of a recipe."""
    if "claims" in keys:
        return Claim.__struct_fields__
    if keys[:1] == ["profiles"]:
        return (Profiles if len(keys) == 1 else Part).__struct_fields__
    return Recipe.__struct_fields__


def _check(path: Path, recipe: Recipe) -> None:
    """What no type says: the settings' names and values, and that there is something to run."""
    for keys, part in parts(recipe):
        _check_one_kind(path, keys, part)
        for choice in _each(part.settings):
            check_settings(path, [*keys, "settings"], choice)
        for number, cell in enumerate(part.cells or []):
            where = [*keys, "cells", number]
            for choice in _each({key: value for key, value in cell.items() if key != "conditions"}):
                check_settings(path, where, choice)
            _check_conditions(path, [*where, "conditions"], cell.get("conditions"))
    for profile in PROFILES:
        if not recipe.uses and not own_entries(path.stem, recipe, profile):
            of = f" of profile {profile}" if recipe.profiles else ""
            raise UserError(f"recipe {path}: conditions{of}: none given, expected a list of condition strings")


def _check_one_kind(path: Path, keys: Keys, part: Part) -> None:
    """A probe stands in the place of conditions, which would never run beside it."""
    named = part.conditions is not None or any(cell.get("conditions") for cell in part.cells or [])
    if part.probe is not None and named:
        where = [*keys, "probe"]
        raise UserError(f"{place(path, where)}: {spelled(where)}: conditions stand beside it, expected one of the two")


def _check_conditions(path: Path, keys: Keys, found: Any) -> None:
    if found is None or (isinstance(found, list) and found and all(isinstance(text, str) for text in found)):
        return
    raise UserError(f"{place(path, keys)}: {spelled(keys)}: {told(found)}, expected a list of condition strings")


def parts(recipe: Recipe) -> list[tuple[Keys, Part]]:
    """What stands for all profiles, then what each says, with the keys that lead there."""
    profiles = recipe.profiles
    return [([], recipe)] + [(["profiles", name], getattr(profiles, name)) for name in PROFILES if profiles]


def claims(recipe: Recipe, profile: str) -> list[Claim]:
    """What is claimed of a recipe's runs in a profile."""
    return next((part.claims for part in _layers(recipe, profile) if part.claims is not None), [])


def own_entries(name: str, recipe: Recipe, profile: str) -> list[Entry]:
    """The cells of a recipe in a profile, without those of the recipes that it uses."""
    layers = _layers(recipe, profile)
    settings = {**recipe.settings, **layers[0].settings}
    cells: Cells = next((part.cells for part in layers if part.cells is not None), [{}])
    own = next((part for part in layers if part.conditions is not None or part.probe is not None), recipe)
    made: list[Entry] = []
    for cell in cells:
        conditions = spread(cell.get("conditions") or own.conditions or ())
        shared = {**settings, **{key: value for key, value in cell.items() if key != "conditions"}}
        if own.probe is not None or conditions:
            given = profile if recipe.profiles else ""
            made += [Entry(name, choice, conditions, own.probe, given) for choice in _each(shared)]
    return made


def entries(name: str, profile: str, _above: tuple[str, ...] = ()) -> list[Entry]:
    """The cells of a recipe in a profile, those of the recipes that it uses first, each once.

    Raises UserError as `read` does, and for recipes that use each other.
    """
    path = find(name)
    if path.stem in _above:
        raise UserError(f"recipe {path}: uses: {' -> '.join((*_above, path.stem))}, expected no way back")
    recipe = read(name)
    made: list[Entry] = []
    for other in recipe.uses:
        made += [entry for entry in entries(other, profile, (*_above, path.stem)) if entry not in made]
    return made + own_entries(path.stem, recipe, profile)


def spread(conditions: Iterable[str]) -> tuple[str, ...]:
    """Condition strings with `{a,b}` written out, one each; the last braces vary fastest."""
    made: list[str] = []
    for text in conditions:
        pieces = [part.split(",") if inside else [part] for part, inside in _braced(text)]
        made += ["".join(chosen) for chosen in product(*pieces)]
    return tuple(dict.fromkeys(made))


def _braced(text: str) -> list[tuple[str, bool]]:
    """The pieces of a text, and whether each stood in braces."""
    return [(part, bool(number % 2)) for number, part in enumerate(re.split(r"\{([^{}]*)\}", text))]


def _layers(recipe: Recipe, profile: str) -> list[Part]:
    """The profile, then what stands for all; always two."""
    return [getattr(recipe.profiles, profile) if recipe.profiles else Part(), recipe]


def _each(settings: Settings) -> list[Settings]:
    """One mapping for every choice of one value where a list stands; the last key varies fastest."""
    choices = [value if isinstance(value, list) and key not in _LISTS else [value] for key, value in settings.items()]
    return [dict(zip(settings, chosen, strict=True)) for chosen in product(*choices)]
