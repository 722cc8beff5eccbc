"""Table 1: the budget in short, how large, in what layout, at what price, from Tables 11, 15 and 10 (section 3)."""

from __future__ import annotations

from bcrbench.stats.cells import Cell
from bcrbench.stats.paper_tables import grid, measures, table10, table11, table15
from bcrbench.stats.paper_tables.build import Build, place_facts, title_of
from bcrbench.stats.paper_tables.panel import Column, Line, Panel
from bcrbench.stats.paper_tables.places import Place

BUDGETS = (0.05, 0.20, 0.40)
AGENTS = 4
ROWS = ("chunk", "grow", "single", "blend-reuse", "blend-cost")
SYMBOLS = 4096


def build(made: Build) -> list[Panel]:
    """Panels (a), (b) and (c)."""
    sweeps = [_sweep(made, place, cell) for place, cell in made.spots([table11.PLACE])]
    return [*sweeps, _rows(made), _price(made)]


def _sweep(made: Build, place: Place, cell: Cell | None) -> Panel:
    columns = [
        Column("rho", "rho", names=True),
        Column("mean", "mean", "percent"),
        Column("spread", "spread", "spread"),
    ]
    lines = []
    for budget in table11.sweep(made, place, cell):
        if budget.rho not in BUDGETS:
            continue
        line, seeds = Line(f"{budget.rho:.2f}", {"rho": f"{budget.rho:.2f}"}), budget.seeds
        line.put("mean", seeds.mean if seeds else None, *budget.runs.values())
        line.put("spread", seeds.spread if seeds else None, *budget.runs.values())
        lines.append(line)
    for name, label, arm in table11.ends(made, place, cell):
        line = Line(name, {"rho": label.partition(" ")[0]})
        line.put("mean", measures.accuracy(arm), arm)
        lines.append(line)
    notes = ["mean, spread: accuracy (%) over the coin's seeds and its range"]
    return Panel("1(a)", title_of("The budget swept by coin", cell), columns, lines, place_facts(cell), notes)


def _rows(made: Build) -> Panel:
    groups = grid.shown_groups(made)
    columns = [Column("method", "Method", names=True), *(Column(g.key, g.title, "rows") for g in groups)]
    lines = []
    for name in ROWS:
        line = Line(name, {"method": grid.LABELS[name].replace("-matched", "")})
        for group in groups:
            arm = grid.row(made, group, name).get(AGENTS)
            line.put(group.key, measures.rows(arm), arm)
        lines.append(line)
    return Panel("1(b)", f"Rows recomputed per call, {AGENTS} agents", columns, lines, notes=table15.NOTES)


def _price(made: Build) -> Panel:
    columns = [Column("method", "Method", names=True), Column("ms", "ms", "tenth"), Column("times", "x", "times")]
    lines = []
    for name, label, row in table10.short_rows(made, SYMBOLS):
        line = Line(name, {"method": label})
        line.put("ms", row.ttft, *row.arms)
        line.put("times", row.speedup if name != "dense" else None, *row.arms)
        lines.append(line)
    return Panel("1(c)", f"Time to first token, {SYMBOLS} symbols", columns, lines, notes=table10.NOTES)
