"""What was made of a recipe as files: one a format, and a figure's charts."""

from __future__ import annotations

import os
from pathlib import Path

from bcrbench.errors import UserError
from bcrbench.stats.figures.render import render
from bcrbench.stats.figures.write import make_folder
from bcrbench.stats.recipes.render import ENDINGS, Made


def save(folder: Path, made: Made) -> str:
    """Write NAME.md, .csv, .tex and .json, and each chart as PNG and PDF; returns what was written in words.

    A file is whole or as it was.

    Raises UserError where the folder cannot be made or written to.
    """
    make_folder(folder, "--save")
    for end, fmt in ENDINGS.items():
        _put(folder / f"{made.name}.{end}", f"{made.texts[fmt]}\n".encode())
    for file, chart in made.charts.items():
        png, pdf = render(chart, "png", "pdf")
        _put(folder / f"{file}.png", png)
        _put(folder / f"{file}.pdf", pdf)
    charts = "".join(f", {file}.{{png,pdf}}" for file in made.charts)
    return f"wrote {folder / made.name}.{{{','.join(ENDINGS)}}}{charts}"


def _put(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise UserError(f"{path}: cannot be written ({error.strerror}), expected a file of ours or none") from error
