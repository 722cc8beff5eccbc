"""Table 2: what the gate can and cannot do, against Dense (section 4.1)."""

from __future__ import annotations

from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.paper_tables import measures, wants
from bcrbench.stats.paper_tables.build import Build, place_facts, title_of, where_of
from bcrbench.stats.paper_tables.panel import Column, Line, Panel
from bcrbench.stats.paper_tables.places import Place

PLACE = Place("gsm8k", 3, 300)
COLUMNS = [
    Column("method", "Method", names=True),
    Column("reuse_when", "reuse when", names=True),
    Column("accuracy", "acc. (%)", "percent"),
    Column("ci", "95% CI", "wilson"),
    Column("cost", "cost", "points"),
    Column("split", "b/c", "split"),
    Column("discordant", "disc.", "count"),
    Column("p", "p", "p*"),
    Column("rate", "rate", "rate"),
]
ROWS = [
    ("dense", wants.dense(), "never"),
    ("kvcomm 0.3", wants.kvcomm(0.3, strict=True), "H(s) <= 0.3 log2 n"),
    ("opengate 0.5", wants.opengate(0.5), "conf. >= 0.5"),
    ("kvcomm 1.0", wants.kvcomm(1.0, strict=True), "H(s) <= 1.0 log2 n"),
]


def build(made: Build) -> list[Panel]:
    """One panel a cell."""
    return [_panel(made, place, cell) for place, cell in made.spots([PLACE])]


def _panel(made: Build, place: Place, cell: Cell | None) -> Panel:
    where = where_of(cell, place)
    arms = {name: made.arm(cell, want, where) for name, want, _ in ROWS}
    lines = []
    for name, want, when in ROWS:
        line = Line(name, {"method": want.label, "reuse_when": when})
        _measure(made, line, arms[name], arms["dense"], where)
        lines.append(line)
    notes = ["b: items that Dense solves and the row misses, c: the reverse; cost: points against Dense; *: p < 0.05"]
    return Panel("2", title_of("The gate against Dense", cell), COLUMNS, lines, place_facts(cell), notes)


def _measure(made: Build, line: Line, arm: Arm | None, dense: Arm | None, where: str) -> None:
    line.put("accuracy", measures.accuracy(arm), arm)
    line.put("ci", measures.interval(arm), arm)
    line.put("rate", measures.reuse(arm), arm)
    found = made.pair(dense, arm, where) if arm is not dense else None
    if found is None or arm is None or dense is None:
        return
    line.put("cost", (found.c - found.b) / made.size(dense, arm), arm, dense)
    line.put("split", found, arm, dense)
    line.put("discordant", found.discordant, arm, dense)
    line.put("p", measures.p_of(found), arm, dense)
