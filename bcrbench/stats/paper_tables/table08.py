"""Table 8: selection value by unit of choice, from probes' logs (section 4.2)."""

from __future__ import annotations

from typing import Any

from bcrbench.runs.log import Log
from bcrbench.stats.paper_tables.build import Build
from bcrbench.stats.paper_tables.panel import Column, Line, Panel
from bcrbench.stats.units import OPERATORS, unit_rows

UNITS = (1, 16, 64, 256, 1024, 2048)
COLUMNS = [
    Column("unit", "unit of choice", names=True),
    Column("budget", "budget", "share"),
    Column("attention", "attention", "error"),
    Column("random", "random", "error"),
    Column("gap", "gap", "gap"),
    Column("gap_share", "gap / no-repair", "share"),
    Column("won", "prompts", "won"),
    Column("p", "p", "p2"),
]


def build(made: Build) -> list[Panel]:
    """One panel a probe's log and operator; the paper's operator first."""
    panels = [panel(log, operator) for operator in OPERATORS for log in made.probes]
    for log in made.probes:
        if log.status != "complete":
            made.say(f"{log.path}: {log.status}; only what it holds is counted")
    if panels:
        return panels
    made.lack("a probe (bcrbench repair --probe units --segment 2048)", "one 2048-token segment, six prompts")
    return [Panel("8", "Selection value by unit of choice (no probe's log)", COLUMNS, [_empty(unit) for unit in UNITS])]


def _empty(unit: int) -> Line:
    return Line(str(unit), {"unit": str(unit)})


def panel(log: Log[Any], operator: str) -> Panel:
    """A log's units under one operator, the paper's units always among them when the segment is the paper's."""
    found = {str(row["unit"]): row for row in unit_rows(log, operator)}
    segment = log.run.effective.get("segment_tokens")
    known = [str(unit) for unit in UNITS] if segment == UNITS[-1] else []
    lines = [_line(name, found.get(name), log.status != "complete") for name in sorted({*known, *found}, key=int)]
    bare = next((row["no_repair"] for row in found.values() if row["no_repair"] is not None), None)
    told = f", {bare:.4f} unrestored" if bare is not None else ""
    model = str(log.run.model.get("spec"))
    title = f"Selection value by unit of choice, {operator} ({log.run.task}, {model}, {segment} tokens{told})"
    notes = [
        "error: relative L2 distance of the attention output from Dense's; gap: random less attention; p: paired t"
    ]
    place = {"task": log.run.task, "model": model, "segment_tokens": segment, "operator": operator, "no_repair": bare}
    return Panel("8", title, COLUMNS, lines, place, notes)


def _line(name: str, row: dict[str, Any] | None, unfinished: bool) -> Line:
    line = _empty(int(name))
    if row is None:
        return line
    values = {key: row[key] for key in ("budget", "attention", "gap", "gap_share", "p")}
    values["random"] = row["coin"]
    values["won"] = (row["won"], row["prompts"]) if row["won"] is not None else None
    line.values |= values
    if unfinished:
        line.unfinished.update(key for key, value in values.items() if value is not None)
    return line
