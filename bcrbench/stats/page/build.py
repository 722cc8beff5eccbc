"""From cells and figures to one HTML file: no request leaves it, and nothing from a log can become markup.

Text is escaped by the template; what the browser of items shows travels as JSON and becomes text nodes. The page's
policy allows its own style and script, by their hashes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import bcrbench
from bcrbench.errors import inert
from bcrbench.stats.cells import Cell
from bcrbench.stats.figures.collect import Drawing, cell_names
from bcrbench.stats.figures.render import render
from bcrbench.stats.figures.write import not_drawn
from bcrbench.stats.page import headline
from bcrbench.stats.page.embed import policy_hash, to_json
from bcrbench.stats.page.items import BUDGET, browser
from bcrbench.stats.page.provenance import Provenance, provenance
from bcrbench.stats.page.svg import clean


@dataclass(frozen=True)
class CellView:
    """A cell as the template shows it."""

    name: str
    shared: str  # what its conditions have in common, in words
    tables: headline.Tables
    provenance: Provenance


@dataclass(frozen=True)
class FigureView:
    """A figure as the template shows it; the drawing has been cleaned."""

    title: str
    where: str
    caption: str
    svg: str
    notes: list[str]


def build(
    cells: Sequence[Cell], drawings: Sequence[Drawing], notes: Sequence[str], budget: int = BUDGET
) -> bytes:  # fmt: skip
    """The page as UTF-8. Raises UserError for an item's line that does not fit the schema."""
    css, js = _packaged("report.css"), _packaged("report.js")
    figures, skipped = _figures(drawings)
    found = browser(cells, budget)
    page = _template().render(
        title="bcrbench report",
        summary=_summary(cells),
        policy="; ".join((
            "default-src 'none'", f"style-src {policy_hash(css)}", f"script-src {policy_hash(js)}", "base-uri 'none'",
            "form-action 'none'",
        )),
        css=css,
        js=js,
        cells=[_view(cell, name) for cell, name in zip(cells, cell_names(cells), strict=True)],
        notes=notes,
        figures=figures,
        skipped=skipped,
        told=found.told,
        data=to_json(found.data).decode(),
        version=bcrbench.__version__,
    )  # fmt: skip
    return page.encode()


def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("bcrbench.stats.page", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["visible"] = inert
    return environment.get_template("report.html.j2")


def _packaged(name: str) -> str:
    return (files("bcrbench.stats.page") / "templates" / name).read_text(encoding="utf-8")


def _view(cell: Cell, name: str) -> CellView:
    shared = ", ".join(f"{key.replace('_', ' ')} {_flat(value)}" for key, value in cell.facts.items())
    return CellView(name, shared, headline.tables(cell), provenance(cell.arms))


def _flat(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _summary(cells: Sequence[Cell]) -> str:
    runs = sum(len(cell.arms) for cell in cells)
    items = sum(len(arm.items) for cell in cells for arm in cell.arms)
    return f"{runs} run{'s' * (runs != 1)} in {len(cells)} cell{'s' * (len(cells) != 1)}, {items} items in all."


def _figures(drawings: Sequence[Drawing]) -> tuple[list[FigureView], list[str]]:
    views: list[FigureView] = []
    skipped = not_drawn(drawing for drawing in drawings if drawing.chart is None)
    for number, drawing in enumerate(drawings):
        if drawing.chart is not None:
            views.append(_figure(drawing, f"f{number}-"))
    places = {drawing.figure.name: (drawing.place, drawing.of) for drawing in drawings}
    for name, (last, of) in places.items():
        skipped += [f"figure {name} of {of - last} more cells: --plot draws all"] if last < of else []
    return views, skipped


def _figure(drawing: Drawing, prefix: str) -> FigureView:
    chart = drawing.chart
    assert chart is not None
    (svg,) = render(chart, "svg", title=False)
    where = drawing.where if drawing.of > 1 else ""
    return FigureView(chart.title, where, drawing.figure.caption, clean(svg, prefix, chart.title), chart.notes)
