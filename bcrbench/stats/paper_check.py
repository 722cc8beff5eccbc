"""Does the paper follow from its own counts? Every printed figure recomputed (`bcrbench stats --paper-check`).

`paper/figures.json` names a recipe for each figure and its inputs; an input that begins with @ points into
`paper/cells.json`, the grid's cells. Recipes are functions over the same statistics as every table's; what is printed
is only compared with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec

from bcrbench.stats.conformance import counts, grid, measures
from bcrbench.stats.conformance.printed import Value, agrees, show


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One printed figure, or several printed together."""

    table: str  # or section
    cell: str
    recipe: str | None  # None: what it needs is not printed
    inputs: dict[str, Any]
    printed: list[str]
    agrees: bool | str | None  # what is known of it: true, "tie", "unrounded", false, null
    reason: str = ""


class Row(NamedTuple):
    """A figure beside its recomputation; `agrees` is None where nothing can be computed."""

    table: str
    cell: str
    printed: str
    recomputed: str
    agrees: bool | None
    reason: str


def load_figures() -> list[Figure]:
    """The paper's figures, in the order of its tables."""
    return msgspec.json.decode(_read("figures.json"), type=list[Figure])


def load_cells() -> dict[str, Any]:
    """The grid's cells and other tables' columns, by name."""
    cells: dict[str, Any] = msgspec.json.decode(_read("cells.json"))
    return cells


def _read(name: str) -> bytes:
    return files("bcrbench.stats").joinpath(f"paper/{name}").read_bytes()


def check(figures: Sequence[Figure] | None = None, cells: Mapping[str, Any] | None = None) -> list[Row]:
    """Recompute every figure."""
    cells = load_cells() if cells is None else cells
    return [recompute(figure, cells) for figure in (load_figures() if figures is None else figures)]


def recompute(figure: Figure, cells: Mapping[str, Any]) -> Row:
    """One figure from its inputs. Raises KeyError for a recipe or a cell that does not exist."""
    printed = ", ".join(figure.printed) or "-"
    if figure.recipe is None:
        return Row(figure.table, figure.cell, printed, "-", None, figure.reason)
    values = RECIPES[figure.recipe](**resolved(figure, cells))
    found = agrees(values, figure.printed)
    return Row(figure.table, figure.cell, printed, show(values, figure.printed), found, figure.reason)


def resolved(figure: Figure, cells: Mapping[str, Any]) -> dict[str, Any]:
    """The figure's inputs, with what they point to in their place."""
    return {name: _resolved(value, cells) for name, value in figure.inputs.items()}


def _resolved(value: Any, cells: Mapping[str, Any]) -> Any:
    """An input with its references followed; {"joined": lists} is one list."""
    if isinstance(value, str) and value.startswith("@"):
        return _cell(value[1:], cells)
    if isinstance(value, list):
        return [_resolved(part, cells) for part in value]
    if isinstance(value, dict) and set(value) == {"joined"}:
        return [part for joined in value["joined"] for part in _resolved(joined, cells)]
    return value


def _cell(path: str, cells: Mapping[str, Any]) -> Any:
    found: Any = cells
    for key in path.split("/"):
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found


def summary_lines(rows: Sequence[Row]) -> list[str]:
    """How many figures are reproduced, and which are not, with the reason."""
    told = Counter(row.agrees for row in rows)
    lines = [
        f"{told[True]} of {len(rows)} printed figures follow from the paper's counts; "
        f"{told[False]} do not, {told[None]} cannot be computed from what is printed"
    ]
    for row in rows:
        if row.agrees is not True:
            verb = "recomputed" if row.agrees is False else "not computable, printed"
            shown = (
                f"printed {row.printed}, {verb} {row.recomputed}" if row.agrees is False else f"{verb} {row.printed}"
            )
            lines.append(f"{row.table}: {row.cell}: {shown} ({row.reason})")
    return lines


def _recipes(*modules: Any) -> dict[str, Callable[..., list[Value]]]:
    """The public functions of the modules, by name."""
    return {
        name: function
        for module in modules
        for name, function in vars(module).items()
        if callable(function) and not name.startswith("_") and function.__module__ == module.__name__
    }


RECIPES = _recipes(counts, measures, grid)
