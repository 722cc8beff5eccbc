"""`bcrbench stats --recipe`: a recipe's tables and figures from its logs, with a verdict on each of its claims."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bcrbench.errors import unknown

if TYPE_CHECKING:
    from bcrbench.runs.log import ItemOutcome, Log
    from bcrbench.stats.claims.judge import Claim
    from bcrbench.stats.recipes.choice import Wanted
    from bcrbench.stats.recipes.render import Made, Told
    from bcrbench.sweep.recipe import Entry, Recipe


@dataclass(frozen=True)
class Asked:
    """What a person asked of a recipe's statistics."""

    recipe: str
    profile: str
    logs: tuple[Path, ...] = ()
    save: Path | None = None
    grader: str | None = None
    intersect: bool = False


@dataclass(frozen=True)
class _Written:
    """A recipe in a profile, as plain values."""

    name: str  # as people type it: table3
    profile: str
    renders: list[str]
    cells: list[Wanted]
    folders: list[Path]
    claims: list[Claim]


def recipe_stats(asked: Asked) -> Iterator[tuple[Made, list[str]]]:
    """Everything that a recipe renders, saved if asked for, with a note on each thing a reader must know.

    Raises UserError for a mistake in the recipe or its claims, and for logs that must not be compared.
    """
    from bcrbench.stats.arms import make_arms
    from bcrbench.stats.cells import group_arms
    from bcrbench.stats.claims.judge import check, judge
    from bcrbench.stats.recipes.render import Told
    from bcrbench.stats.recipes.write import save
    from bcrbench.stats.units import is_probe

    written = _written(asked)
    for claim in written.claims:
        check(claim)
    logs, notes = _logs(asked, written)
    runs = [log for log in logs if not is_probe(log)]
    cells, said = group_arms(make_arms(runs, asked.grader), asked.intersect)
    told = Told(written.name, written.profile, judge(written.claims, cells), notes)
    for name in written.renders or [written.name]:
        made = _make(name, logs, told, asked)
        yield made, [save(asked.save, made)] if asked.save is not None else []


def _make(name: str, logs: Sequence[Log[ItemOutcome]], told: Told, asked: Asked) -> Made:
    from bcrbench.stats.paper_tables import TABLES
    from bcrbench.stats.recipes import render

    if name in TABLES.names():
        return render.make_paper_table(name, logs, told, asked.grader, asked.intersect)
    make = render.make_figure if name in render.FIGURES else render.make_report
    return make(name, logs, told, asked.grader, asked.intersect)


def _written(asked: Asked) -> _Written:
    """The recipe in the wanted profile. Raises UserError for an unknown one, and for what it cannot render."""
    from bcrbench.stats.paper_tables import TABLES
    from bcrbench.stats.recipes.choice import Wanted
    from bcrbench.stats.recipes.render import FIGURES
    from bcrbench.sweep.profiles import chosen
    from bcrbench.sweep.recipe import entries, find, read

    path, recipe, profile = find(asked.recipe), read(asked.recipe), chosen(asked.profile)
    known = {*TABLES.names(), *FIGURES}
    for name in recipe.renders:
        if name not in known:
            raise unknown(f"table or figure in recipe {path.name}", name, known)
    cells: list[Wanted] = []
    folders: dict[Path, None] = {}
    for entry in entries(asked.recipe, profile):
        settings = _settings(entry)
        cells.append(Wanted(settings, entry.probe is not None, entry.recipe))
        folders.setdefault(Path(settings["out"]))
    return _Written(_typed(path.stem), profile, recipe.renders, cells, list(folders), _claims(path, recipe, profile))


def _settings(entry: Entry) -> dict[str, Any]:
    """A cell's settings as a sweep would resolve them, less flags."""
    import msgspec

    from bcrbench.settings import FILE, from_folder, resolve

    shared = {"out": f"runs/{entry.profile}"} if entry.profile else {}
    layers = [("profile", shared), (FILE, from_folder()), (entry.recipe, entry.settings)]
    found: dict[str, Any] = msgspec.to_builtins(resolve(layers)[0])
    return found


def _typed(stem: str) -> str:
    """`table3` for table03.yaml."""
    return stem.replace("table0", "table", 1) if stem.startswith("table0") else stem


def _claims(path: Path, recipe: Recipe, profile: str) -> list[Claim]:
    """The recipe's claims, each with the line that it stands on."""
    from bcrbench.stats.claims.judge import Claim
    from bcrbench.sweep.recipe import claims
    from bcrbench.sweep.recipe_errors import place

    own = getattr(recipe.profiles, profile).claims if recipe.profiles else None
    keys = ["profiles", profile, "claims"] if own is not None else ["claims"]
    return [
        Claim(claim.text, claim.kind, claim.parameters, place(path, [*keys, number]))
        for number, claim in enumerate(claims(recipe, profile))
    ]


def _logs(asked: Asked, written: _Written) -> tuple[list[Log[ItemOutcome]], list[str]]:
    """The recipe's logs, and notes on what could not be read or found."""
    from bcrbench.runs.log import read_outcomes
    from bcrbench.stats.figures.source import read_for_figures
    from bcrbench.stats.reading import read_logs
    from bcrbench.stats.recipes.choice import choose
    from bcrbench.stats.recipes.render import FIGURES

    fills = f"`bcrbench sweep {asked.recipe} --profile {written.profile}` makes them"
    places = ", ".join(map(str, asked.logs or written.folders))
    paths = _inside(asked.logs or [folder for folder in written.folders if folder.is_dir()])
    if not paths:
        return [], [f"{places}: no log of this recipe yet: {fills}"]
    taken, fit = choose(paths, written.cells)
    if not taken:
        return [], [f"{places}: none of {len(paths)} logs is of this recipe's cells: {fills}"]
    drawn = any(name in FIGURES for name in written.renders)
    logs, notes = read_logs(taken, read_for_figures if drawn else read_outcomes, needed=False)
    if not logs:
        notes.append(f"{places}: no log of this recipe yet: {fills}")
    others = (
        []
        if fit or not logs
        else [f"{places}: no log is of this recipe's cells, so {len(taken)} of other cells are taken"]
    )
    return logs, [*others, *notes]


def _inside(places: Sequence[Path]) -> list[Path]:
    """Files as they are, a folder's logs in order of name, none where it has none yet."""
    found = [sorted(place.glob("*.jsonl")) if os.path.isdir(place) else [place] for place in places]
    return list(dict.fromkeys(path for paths in found for path in paths))
