"""A table of the paper from logs: what `bcrbench stats --table N` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bcrbench.runs.log import ItemOutcome, Log
from bcrbench.stats.arms import make_arms
from bcrbench.stats.cells import group_arms
from bcrbench.stats.paper_tables import TABLES
from bcrbench.stats.paper_tables.build import Build
from bcrbench.stats.paper_tables.panel import Panel
from bcrbench.stats.paper_tables.printed import source
from bcrbench.stats.paper_tables.render import marks, render


def make_table(
    number: str, runs: Sequence[Log[ItemOutcome]], probes: Sequence[Log[Any]] = (), grader: str | None = None,
    intersect: bool = False,
) -> tuple[list[Panel], list[str]]:  # fmt: skip
    """A table's panels and footnotes. Cells that no log fills are missing.

    Raises UserError for an unknown table and for runs that must not be compared.
    """
    builder = TABLES.get(number)
    cells, notes = group_arms(make_arms(runs, grader))
    made = Build(cells, list(probes), intersect)
    panels = builder(made)
    legend = dict.fromkeys(note for panel in panels for note in panel.notes)
    return panels, [*legend, *marks(panels), *notes, *made.footnotes()]


def paper_table(
    number: str, runs: Sequence[Log[ItemOutcome]], probes: Sequence[Log[Any]] = (), fmt: str = "table",
    paper: bool = False, grader: str | None = None, intersect: bool = False,
) -> tuple[str, list[str]]:  # fmt: skip
    """The table as text with its footnotes; records come with the footnotes beside them instead."""
    panels, notes = make_table(number, runs, probes, grader, intersect)
    notes = [*([source(number)] if paper else []), *notes]
    return render(number, panels, notes, fmt, paper), notes if fmt in ("csv", "json") else []
