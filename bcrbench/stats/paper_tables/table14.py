"""Table 14: each condition against BCR-chunk, cell by cell (App. D)."""

from __future__ import annotations

from bcrbench.stats.paper_tables import grid, measures
from bcrbench.stats.paper_tables.build import Build
from bcrbench.stats.paper_tables.panel import Column, Line, Panel
from bcrbench.stats.paper_tables.places import Group

FIRST = ("blend-reuse", "blend-cost", "grow", "single")


def build(made: Build) -> list[Panel]:
    """One panel, a block of rows a task."""
    head = [Column("dataset", "Dataset", names=True), Column("condition", "Condition", names=True)]
    lines = [_line(made, group, name) for group in grid.shown_groups(made) for name in FIRST]
    notes = ["b: items that the named condition solves and BCR-chunk misses, c: the reverse; p: exact McNemar"]
    columns = [*head, *grid.split_columns(grid.count_columns(made))]
    return [Panel("14", "The grid's splits against BCR-chunk, by agents", columns, lines, notes=notes)]


def _line(made: Build, group: Group, name: str) -> Line:
    line = Line(f"{group.task} {name}", {"dataset": group.title, "condition": grid.LABELS[name]})
    grid.put_splits(line, grid.splits(made, group, name, "chunk"), measures.p_of)
    return line
