"""Table 7: allocation policies on the line through Dense and KVComm (Eq. 3, section 4.2)."""

from __future__ import annotations

from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.paper_tables import measures, wants
from bcrbench.stats.paper_tables.build import Build, place_facts, title_of, where_of
from bcrbench.stats.paper_tables.panel import Column, Line, Panel
from bcrbench.stats.paper_tables.places import Place
from bcrbench.stats.reuse_line import ReuseLine, line_through

PLACE = Place("gsm8k", 5, 150, pinned=True)
GAMMA = 0.3
COLUMNS = [
    Column("policy", "Policy", names=True),
    Column("decides_from", "decides from", names=True),
    Column("reuse", "reuse", "rate"),
    Column("accuracy", "acc. (%)", "percent"),
    Column("ci", "95% CI", "wilson0"),
    Column("p", "p vs Dense", "p*"),
    Column("split", "b/c", "split"),
    Column("predicted", "pred.", "percent"),
    Column("residual", "resid.", "points"),
]
ROWS = [
    ("dense", wants.dense(), "no reuse"),
    ("protect-root", wants.policy("Protect-the-Root", "protect-root", GAMMA), "structural"),
    ("random", wants.policy("Random", "random", GAMMA), "information-free"),
    ("protect-leaf", wants.policy("Protect-the-Leaf", "protect-leaf", GAMMA), "structural"),
    ("kvcomm", wants.kvcomm(GAMMA), "entropy gate"),
]


def build(made: Build) -> list[Panel]:
    """One panel a cell."""
    return [_panel(made, place, cell) for place, cell in made.spots([PLACE])]


def policies(made: Build, place: Place, cell: Cell | None) -> list[Line]:
    """The table's rows, in the paper's order."""
    where = where_of(cell, place)
    arms = {name: made.arm(cell, want, where) for name, want, _ in ROWS}
    line = _line_of(arms["dense"], arms["kvcomm"])
    return [_row(made, ROWS[k], arms, line, where) for k in range(len(ROWS))]


def _line_of(dense: Arm | None, kvcomm: Arm | None) -> ReuseLine | None:
    """Eq. 3's line; None while an end of it is missing or reuses nothing."""
    ends = measures.accuracy(dense), measures.accuracy(kvcomm)
    rate = measures.reuse(kvcomm)
    return line_through(ends[0], ends[1], rate) if ends[0] is not None and ends[1] is not None and rate else None


def _row(
    made: Build, kind: tuple[str, wants.Want, str], arms: dict[str, Arm | None], eq3: ReuseLine | None, where: str
) -> Line:
    name, want, source = kind
    arm, dense = arms[name], arms["dense"]
    line = Line(name, {"policy": want.label, "decides_from": source})
    rate, accuracy = measures.reuse(arm), measures.accuracy(arm)
    line.put("reuse", rate, arm)
    line.put("accuracy", accuracy, arm)
    line.put("ci", measures.interval(arm), arm)
    found = made.pair(dense, arm, where) if arm is not dense else None
    line.put("p", measures.p_of(found), arm, dense)
    line.put("split", found, arm, dense)
    if eq3 is not None and rate is not None and accuracy is not None:
        line.put("predicted", eq3.predicted(rate), arm, *arms.values())
        line.put("residual", eq3.residual(accuracy, rate), arm, *arms.values())
    return line


def _panel(made: Build, place: Place, cell: Cell | None) -> Panel:
    lines = policies(made, place, cell)
    notes = [
        "pred.: accuracy that Eq. 3's line through Dense and KVComm gives at the reuse rate; resid.: points beyond it, "
        "of unrounded values; b: items that only Dense solves, c: that only the row does; *: p < 0.05",
    ]
    return Panel("7", title_of("Allocation policies on one line", cell), COLUMNS, lines, place_facts(cell), notes)
