"""Figures as files: PNG and PDF, with the data beside them as CSV."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from bcrbench.errors import UserError
from bcrbench.stats.figures.collect import Drawing
from bcrbench.stats.figures.render import render
from bcrbench.stats.tables import render_records


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
    notes: list[str] = []
    for drawing in drawings:
        notes += remarks(drawing)
        if drawing.chart is None:
            continue
        png, pdf = render(drawing.chart, "png", "pdf")
        data = render_records(drawing.chart.rows, "csv").encode() + b"\n"
        for ending, content in (("png", png), ("pdf", pdf), ("csv", data)):
            path = folder / f"{file_stem(drawing)}.{ending}"
            _write(path, content)
            written.append(path)
    return written, notes


def remarks(drawing: Drawing) -> list[str]:
    """What a reader must know of a figure: that it was not drawn and why, or what it leaves out."""
    where = f" ({drawing.where})" if drawing.of > 1 else ""
    if drawing.chart is None:
        return [f"figure {drawing.figure.name}{where} is not drawn: {drawing.why}"]
    return [f"figure {drawing.figure.name}{where}: {note}" for note in drawing.chart.notes]


def make_folder(folder: Path, option: str) -> None:
    """Make a folder and those above it. Raises UserError, which names the option, where that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{option} {str(folder)!r}: cannot be made ({error.strerror}), expected a folder") from error


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}), expected a file of ours or none") from error
