"""Table 4: policies, unit of choice, layouts and cells in short, from Tables 7, 8 and 13 (section 4.2)."""

from __future__ import annotations

from bcrbench.stats.cells import Cell
from bcrbench.stats.paper_tables import grid, measures, table07, table08
from bcrbench.stats.paper_tables.build import Build, place_facts, title_of
from bcrbench.stats.paper_tables.panel import Column, Line, Panel
from bcrbench.stats.paper_tables.places import Place

UNITS = ("1", "64", "1024")
POLICIES = ("protect-root", "random", "protect-leaf", "dense", "kvcomm")
LAYOUTS = ("chunk", "grow", "single")


def build(made: Build) -> list[Panel]:
    """Panels (a) to (d)."""
    policies = [_policies(made, place, cell) for place, cell in made.spots([table07.PLACE])]
    return [*policies, *_units(made), _layouts(made), _cells(made)]


def _policies(made: Build, place: Place, cell: Cell | None) -> Panel:
    by_name = {line.name: line for line in table07.policies(made, place, cell)}
    columns = [
        Column("policy", "Policy", names=True),
        Column("reuse", "reuse", "rate"),
        Column("residual", "resid.", "points"),
    ]
    lines = [_only(by_name[name], columns) for name in POLICIES]
    notes = ["resid.: points earned beyond Eq. 3's line through Dense and KVComm"]
    return Panel("4(a)", title_of("Allocation policies", cell), columns, lines, place_facts(cell), notes)


def _only(line: Line, columns: list[Column]) -> Line:
    keys = {column.key for column in columns}
    kept = {key: value for key, value in line.values.items() if key in keys}
    return Line(line.name, kept, line.unfinished & keys)


def _units(made: Build) -> list[Panel]:
    columns = [
        Column("unit", "unit (rows)", names=True),
        Column("gap_share", "gap %", "share"),
        Column("won", "won", "won"),
    ]
    panels = []
    for full in table08.build(made):
        if full.place.get("operator", "transplant") != "transplant":
            continue
        shown = [line for line in full.lines if line.name in UNITS] or full.lines
        panels.append(Panel("4(b)", full.title, columns, [_only(line, columns) for line in shown], full.place))
    return panels


def _layouts(made: Build) -> Panel:
    columns = [Column("dataset", "", names=True), *(Column(name, name, "split") for name in LAYOUTS)]
    lines = []
    for group in grid.shown_groups(made):
        line = Line(group.task, {"dataset": group.title})
        for name in LAYOUTS:
            grid.put_pooled(line, name, grid.splits(made, group, name, "kvcomm").values())
        lines.append(line)
    notes = [
        "b: items that KVComm misses and the layout solves, c: the reverse, summed over agent counts: no test, the "
        "cells re-run the same items",
    ]
    return Panel("4(c)", "Layouts against KVComm, pooled", columns, lines, notes=notes)


def _cells(made: Build) -> Panel:
    columns = [
        Column("dataset", "Dense vs. KVComm", names=True),
        *grid.split_columns(grid.count_columns(made)),
        Column("pooled", "pooled", "split"),
    ]
    lines = []
    for group in grid.shown_groups(made):
        line = Line(group.task, {"dataset": group.title})
        found = grid.splits(made, group, "dense", "kvcomm")
        grid.put_splits(line, found, measures.p_of)
        grid.put_pooled(line, "pooled", found.values())
        lines.append(line)
    notes = ["b: items that KVComm misses and Dense solves, c: the reverse; pooled: sums, which carry no test"]
    return Panel("4(d)", "The grid's cells, by agents", columns, lines, notes=notes)
