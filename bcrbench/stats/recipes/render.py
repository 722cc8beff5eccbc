"""A recipe's tables, figures and verdicts as text, in every format that is saved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bcrbench.errors import inert
from bcrbench.runs.log import ItemOutcome, Log
from bcrbench.stats.arms import make_arms
from bcrbench.stats.cells import make_cells
from bcrbench.stats.claims.kind import Verdict
from bcrbench.stats.figures.base import Chart
from bcrbench.stats.figures.collect import Drawing, collect
from bcrbench.stats.figures.write import not_drawn, remarks
from bcrbench.stats.paper_tables.panel import Panel
from bcrbench.stats.paper_tables.printed import source
from bcrbench.stats.paper_tables.render import records, render
from bcrbench.stats.paper_tables.report import make_table
from bcrbench.stats.report import Options
from bcrbench.stats.summary import Row
from bcrbench.stats.tables import escape, footnotes, render_records
from bcrbench.stats.units import is_probe, report_all

FIGURES = {"figure2": ("warm-up", "reuse-line")}  # the paper's figures, panel by panel
ENDINGS = {"md": "md", "csv": "csv", "tex": "latex", "json": "json"}
Logs = Sequence[Log[ItemOutcome]]


@dataclass
class Made:
    """A table or a figure: its text by format (`table` for a terminal), its charts by file name, and what to say."""

    name: str
    texts: dict[str, str]
    notes: list[str] = field(default_factory=list)
    charts: dict[str, Chart] = field(default_factory=dict)


@dataclass(frozen=True)
class Told:
    """What stands beside every table of a recipe: the verdicts, and notes on the logs."""

    recipe: str
    profile: str
    verdicts: Sequence[Verdict]
    notes: Sequence[str] = ()


def make_paper_table(number: str, logs: Logs, told: Told, grader: str | None = None, intersect: bool = False) -> Made:
    """A table with the paper's values beside ours. Raises UserError as `paper_table` does."""
    runs = [log for log in logs if not is_probe(log)]
    probes = [log for log in logs if is_probe(log)]
    panels, found = make_table(number, runs, probes, grader, intersect)
    notes = [*told.notes, source(number), *found]
    texts = {fmt: _grids(number, panels, notes, fmt, told) for fmt in ("table", "md", "latex")}
    rows = records(number, panels, paper=True)
    return Made(f"table{number}", texts | _data(f"table{number}", rows, notes, told))


def _grids(number: str, panels: Sequence[Panel], notes: Sequence[str], fmt: str, told: Told) -> str:
    return _joined(render(number, panels, notes, fmt, paper=True), verdict_lines(told.verdicts, fmt))


def make_report(name: str, logs: Logs, told: Told, grader: str | None = None, intersect: bool = False) -> Made:
    """The comparison of a recipe's runs, for one that is no table of the paper. Raises UserError as `report` does."""
    logs = [log for log in logs if not is_probe(log)] or logs  # probes have a table of their own
    made = {fmt: report_all(logs, Options(grader=grader, intersect=intersect), fmt) for fmt in ("table", "md", "latex")}
    notes = [*told.notes, *made["table"].notes]
    texts = {
        fmt: _joined(one.text, footnotes(notes, fmt), verdict_lines(told.verdicts, fmt)) for fmt, one in made.items()
    }
    rows = json.loads(report_all(logs, Options(grader=grader, intersect=intersect), "json").text)
    return Made(name, texts | _data(name, rows, notes, told))


def make_figure(name: str, logs: Logs, told: Told, grader: str | None = None, intersect: bool = False) -> Made:
    """The panels of a figure, one chart a panel and cell; what cannot be drawn is said with its reason.

    Logs are read for figures. Raises UserError for what must not be compared.
    """
    runs = [log for log in logs if not is_probe(log)]
    cells, notes = make_cells(make_arms(runs, grader), None, intersect)
    panels = dict(zip(FIGURES[name], "abcdefgh"))
    drawings = list(collect(cells, [], names=panels))
    charts: dict[str, Chart] = {}
    rows: list[Row] = []
    for one in drawings:
        if one.chart is not None:
            charts[_file(name, panels[one.figure.name], one)] = one.chart
            where = {"cell": one.where} if one.of > 1 else {}
            rows += [{"panel": panels[one.figure.name], **where, **row} for row in one.chart.rows]
    said = [*told.notes, *notes, *(note for one in drawings for note in remarks(one))]
    said += not_drawn(one for one in drawings if one.chart is None)
    texts = {fmt: _figure(charts, said, fmt, told) for fmt in ("table", "md", "latex")}
    return Made(name, texts | _data(name, rows, said, told), charts=charts)


def _file(name: str, panel: str, one: Drawing) -> str:
    return f"{name}{panel}" + (f".{one.place}" if one.of > 1 else "")


def _figure(charts: dict[str, Chart], notes: Sequence[str], fmt: str, told: Told) -> str:
    forms = {
        "table": lambda file, title: f"{file}.png: {title}",
        "md": lambda file, title: f"![{escape(title, 'md')}]({file}.png)\n\n{escape(title, 'md')}",
        "latex": lambda file, title: f"% {title}\n\\includegraphics[width=\\linewidth]{{{file}.pdf}}",
    }
    shown = [forms[fmt](file, inert(chart.title)) for file, chart in charts.items()]
    return _joined(*shown, footnotes(notes, fmt), verdict_lines(told.verdicts, fmt))


def _data(name: str, rows: Sequence[Row], notes: Sequence[str], told: Told) -> dict[str, str]:
    """The formats for programs: rows alone, and rows with what belongs to them."""
    whole: dict[str, Any] = {"name": name, "recipe": told.recipe, "profile": told.profile, "rows": list(rows)}
    whole |= {"notes": list(notes), "claims": [_claim(verdict) for verdict in told.verdicts]}
    # An object is one row of what `render_records` lists.
    listed = render_records([whole], "json")
    return {"csv": render_records(rows, "csv") if rows else "", "json": listed.removeprefix("[\n").removesuffix("\n]")}


def _claim(verdict: Verdict) -> dict[str, Any]:
    return {
        "claim": verdict.claim, "kind": verdict.kind, "verdict": verdict.verdict, "evidence": verdict.evidence,
        "n": verdict.n,
    }  # fmt: skip


def verdict_lines(verdicts: Sequence[Verdict], fmt: str) -> str:
    """One line a claim: a list in Markdown, comments in LaTeX; nothing without claims."""
    if not verdicts:
        return ""
    lines = [inert(verdict.line) for verdict in verdicts]
    if fmt == "md":
        bold = [
            f"- **{verdict.verdict}**{escape(line.removeprefix(verdict.verdict), fmt)}"
            for verdict, line in zip(verdicts, lines, strict=True)
        ]
        return "\n".join(["**Claims**", "", *bold])
    begin = {"table": "  ", "latex": "%   "}[fmt]
    return "\n".join([f"{begin.rstrip(' ')}{' ' if fmt == 'latex' else ''}Claims:", *(begin + line for line in lines)])


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
