"""Table 9: the gate sweep at n = 60, with times (App. C, G.3)."""

from __future__ import annotations

from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.paper_tables import measures, wants
from bcrbench.stats.paper_tables.build import Build, place_facts, title_of, where_of
from bcrbench.stats.paper_tables.panel import Column, Line, Panel
from bcrbench.stats.paper_tables.places import Place

PLACE = Place("gsm8k", 3, 60)
GAMMAS = (0.3, 0.5, 0.7, 1.0)
LATE = 3  # the last third of the items: 20 of 60
COLUMNS = [
    Column("method", "Method", names=True),
    Column("gamma", "gamma", names=True),
    Column("accuracy", "acc. (%)", "percent"),
    Column("ci", "95% CI", "wilson0"),
    Column("p", "p", "p2"),
    Column("all", "all", "rate"),
    Column("late", "late", "rate"),
    Column("calls", "calls", "calls"),
    Column("ttft_ms", "TTFT (ms)", "tenth"),
    Column("e2e_s", "E2E (s)", "hundredth"),
]


def build(made: Build) -> list[Panel]:
    """One panel a cell."""
    return [_panel(made, place, cell) for place, cell in made.spots([PLACE])]


def _panel(made: Build, place: Place, cell: Cell | None) -> Panel:
    where = where_of(cell, place)
    default = made.arm(cell, wants.kvcomm(GAMMAS[0], strict=True), where)
    lines = [_line(made, Line("dense", {"method": "Dense", "gamma": "-"}), made.arm(cell, wants.dense(), where))]
    for gamma in GAMMAS:
        arm = made.arm(cell, wants.kvcomm(gamma, strict=True), where)
        line = _line(made, Line(f"kvcomm {gamma}", {"method": "KVComm", "gamma": str(gamma)}), arm)
        found = made.pair(default, arm, where) if arm is not default else None
        line.put("p", measures.p_of(found), arm, default)
        lines.append(line)
    notes = [
        "p: exact McNemar against gamma 0.3; all, late: share of calls served without a dense prefill, over all items "
        "and the last third of them; calls: reused/dense; times: means over calls and over items",
    ]
    return Panel("9", title_of("The gate sweep", cell), COLUMNS, lines, place_facts(cell), notes)


def _line(made: Build, line: Line, arm: Arm | None) -> Line:
    line.put("accuracy", measures.accuracy(arm), arm)
    line.put("ci", measures.interval(arm), arm)
    line.put("all", measures.reuse(arm), arm)
    line.put("late", measures.reuse(arm, arm.items[-(len(arm.items) // LATE) :]) if arm is not None else None, arm)
    line.put("calls", measures.served(arm), arm)
    line.put("ttft_ms", measures.ttft(arm), arm)
    line.put("e2e_s", measures.seconds(arm), arm)
    return line
