"""What was made of a recipe as files: one a format, and a figure's charts."""

from __future__ import annotations

from pathlib import Path

from bcrbench.stats.figures.render import render
from bcrbench.stats.recipes.render import ENDINGS, Made
from bcrbench.whole_file import make_folder, write_whole


def save(folder: Path, made: Made) -> str:
    """Write NAME.md, .csv, .tex and .json, and each chart as PNG and PDF; returns what was written in words.

    A file is whole or as it was.

    Raises UserError where the folder cannot be made or written to.
    """
    make_folder(folder, "--save")
    for end, fmt in ENDINGS.items():
        write_whole(folder / f"{made.name}.{end}", f"{made.texts[fmt]}\n".encode(), "--save")
    for file, chart in made.charts.items():
        png, pdf = render(chart, "png", "pdf")
        write_whole(folder / f"{file}.png", png, "--save")
        write_whole(folder / f"{file}.pdf", pdf, "--save")
    charts = "".join(f", {file}.{{png,pdf}}" for file in made.charts)
    return f"wrote {folder / made.name}.{{{','.join(ENDINGS)}}}{charts}"
