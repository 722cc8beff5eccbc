"""Table 13: the reference grid's splits against KVComm, cell by cell (section 4.3, App. H.1)."""

from __future__ import annotations

from bcrbench.stats.paper_tables import grid, measures
from bcrbench.stats.paper_tables.build import Build
from bcrbench.stats.paper_tables.panel import Column, Line, Panel
from bcrbench.stats.paper_tables.places import Group

FIRST = ("dense", "chunk", "grow", "single")


def build(made: Build) -> list[Panel]:
    """One panel, a block of rows a task."""
    head = [Column("dataset", "Dataset", names=True), Column("split", "Split", names=True)]
    lines = [_line(made, group, name) for group in grid.shown_groups(made) for name in FIRST]
    notes = ["b: items that KVComm misses and the other condition solves, c: the reverse; p: exact McNemar"]
    columns = [*head, *grid.split_columns(grid.count_columns(made))]
    return [Panel("13", "The grid's splits against KVComm, by agents", columns, lines, notes=notes)]


def _line(made: Build, group: Group, name: str) -> Line:
    line = Line(f"{group.task} {name}", {"dataset": group.title, "split": f"{grid.LABELS[name]} vs. KVComm"})
    grid.put_splits(line, grid.splits(made, group, name, "kvcomm"), measures.p_of)
    if name != "dense":
        line.shaded.update(key for key in line.values if key.startswith("split_"))
    return line
