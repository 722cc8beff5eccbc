"""Figures as files: PNG and PDF, with the data beside them as CSV."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from bcrbench.stats.figures.collect import Drawing
from bcrbench.stats.figures.render import render
from bcrbench.stats.tables import render_records
from bcrbench.whole_file import make_folder, write_whole


def file_stem(drawing: Drawing) -> str:
    """A file's name without its ending: the figure's, and where there are several of it, the place and the cell's."""
    if drawing.of == 1:
        return drawing.figure.name
    where = re.sub(r"[^A-Za-z0-9]+", "-", drawing.where).strip("-")[:60].rstrip("-")
    return f"{drawing.figure.name}.{drawing.place}-{where}" if where else f"{drawing.figure.name}.{drawing.place}"


def write_figures(folder: Path, drawings: Iterable[Drawing]) -> tuple[list[Path], list[str]]:
    """Write each chart into the folder; returns the files, and one line a figure that the logs could not give.

    Raises UserError where the folder cannot be made or written to.
    """
    make_folder(folder, "--plot")
    written: list[Path] = []
    missing: list[Drawing] = []
    notes: list[str] = []
    for drawing in drawings:
        if drawing.chart is None:
            missing.append(drawing)
            continue
        notes += remarks(drawing)
        png, pdf = render(drawing.chart, "png", "pdf")
        data = render_records(drawing.chart.rows, "csv").encode() + b"\n"
        for ending, content in (("png", png), ("pdf", pdf), ("csv", data)):
            path = folder / f"{file_stem(drawing)}.{ending}"
            write_whole(path, content, "--plot")
            written.append(path)
    return written, [*notes, *not_drawn(missing)]


def remarks(drawing: Drawing) -> list[str]:
    """What a drawn figure leaves out."""
    where = f" ({drawing.where})" if drawing.of > 1 else ""
    return [f"figure {drawing.figure.name}{where}: {note}" for note in drawing.chart.notes] if drawing.chart else []


def not_drawn(missing: Iterable[Drawing]) -> list[str]:
    """Why figures were not drawn: one line a figure and reason, with the cell, or how many of them."""
    alike: dict[tuple[str, str], list[Drawing]] = {}
    for drawing in missing:
        alike.setdefault((drawing.figure.name, drawing.why), []).append(drawing)
    return [f"figure {name} is not drawn{_places(found)}: {why}" for (name, why), found in alike.items()]


def _places(found: list[Drawing]) -> str:
    if found[0].of == 1:
        return ""
    return f" ({found[0].where})" if len(found) == 1 else f" in {len(found)} of {found[0].of} cells"
