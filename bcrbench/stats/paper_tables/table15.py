"""Table 15: rows recomputed by a repaired call, in the reference grid (App. D)."""

from __future__ import annotations

from bcrbench.stats.paper_tables import grid, measures
from bcrbench.stats.paper_tables.build import Build
from bcrbench.stats.paper_tables.panel import Column, Line, Panel
from bcrbench.stats.paper_tables.places import Group

NOTES = ["rows: mean over the calls in which the repair recomputed some; chosen rows that were exact already count"]
NAMES = ("blend-reuse", "blend-cost", "chunk", "grow", "single")


def build(made: Build) -> list[Panel]:
    """One panel, a block of rows a task."""
    head = [Column("dataset", "Dataset", names=True), Column("method", "Method", names=True)]
    columns = [Column(f"rows_{count}", str(count), "rows") for count in grid.count_columns(made)]
    lines = [_line(made, group, name) for group in grid.shown_groups(made) for name in NAMES]

    return [Panel("15", "Rows recomputed per agent call, by agents", [*head, *columns], lines, notes=NOTES)]


def _line(made: Build, group: Group, name: str) -> Line:
    line = Line(f"{group.task} {name}", {"dataset": group.title, "method": grid.LABELS[name]})
    for count, arm in grid.row(made, group, name).items():
        line.put(f"rows_{count}", measures.rows(arm), arm)
        if name in ("chunk", "grow", "single"):
            line.shaded.add(f"rows_{count}")
    return line
