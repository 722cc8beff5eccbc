"""Panels as text: grids with footnotes for a reader, one record a row for a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bcrbench.errors import inert
from bcrbench.stats.paper_tables.panel import Column, Line, Panel
from bcrbench.stats.paper_tables.printed import paper_value
from bcrbench.stats.summary import Row
from bcrbench.stats.tables import escape, footnotes, grid, heading, render_records

UNFINISHED = "†"
# Private characters, which cannot come out of a log: names are made inert before. (begin, end, sign in a terminal)
_MARKS = {"best": ("\ue000", "\ue001", "^"), "shaded": ("\ue002", "\ue003", "_")}
_WRITTEN = {
    "md": {"\ue000": "**", "\ue001": "**", "\ue002": "<u>", "\ue003": "</u>"},
    "latex": {"\ue000": r"\textbf{", "\ue001": "}", "\ue002": r"\underline{", "\ue003": "}"},
}


def records(number: str, panels: Sequence[Panel], paper: bool) -> list[Row]:
    """One flat object a row: full precision, shares as fractions, None for what is missing."""
    return [_record(number, panel, line, paper) for panel in panels for line in panel.lines]


def _record(number: str, panel: Panel, line: Line, paper: bool) -> Row:
    row: Row = {"table": panel.name, **panel.place}
    for column in panel.columns:
        names = line.form(column).parts
        row |= _parts(column.key, names, line.values.get(column.key))
        if paper and column.shown and not column.names:
            row |= _parts(f"paper_{column.key}", names, paper_value(number, panel, line, column))
    if line.unfinished:
        row["unfinished"] = " ".join(sorted(line.unfinished))
    return row


def _parts(key: str, names: Sequence[str], value: Any) -> Row:
    if not names:
        return {key: value}
    return {f"{key}_{name}": value[k] if value is not None else None for k, name in enumerate(names)}


def render(number: str, panels: Sequence[Panel], notes: Sequence[str], fmt: str, paper: bool) -> str:
    """The table in a format. Footnotes stand below the grids; records have none."""
    if fmt in ("csv", "json"):
        return render_records(records(number, panels, paper), fmt)
    parts = [
        heading(f"Table {panel.name}. {panel.title}", fmt) + _grid(number, panel, fmt, paper) for panel in panels
    ]  # fmt: skip
    return "\n\n".join([*parts, footnotes(notes, fmt)])


def marks(panels: Sequence[Panel]) -> list[str]:
    """What the marks in the cells mean, as far as there are any."""
    lines = [line for panel in panels for line in panel.lines]
    told = []
    if any(line.best & line.values.keys() for line in lines):
        told.append("best: bold, or ^ in a terminal")
    if any(_has_shade(line) for line in lines):
        told.append("shaded by the paper: underlined, or _ in a terminal")
    if any(line.unfinished for line in lines):
        told.append(f"{UNFINISHED}: a run behind it did not complete")
    return ["; ".join(told)] if told else []


def _has_shade(line: Line) -> bool:
    return any(line.values.get(key) is not None for key in line.shaded)


def _grid(number: str, panel: Panel, fmt: str, paper: bool) -> str:
    columns = [column for column in panel.columns if column.shown]
    body = [[_cell(number, panel, line, column, fmt, paper) for column in columns] for line in panel.lines]
    text = grid([c.head for c in columns], body, ["left" if c.names else "right" for c in columns], fmt)
    for sign, written in _WRITTEN.get(fmt, {}).items():
        text = text.replace(sign, written)
    return text


def _cell(number: str, panel: Panel, line: Line, column: Column, fmt: str, paper: bool) -> str:
    value = line.values.get(column.key)
    text = "-" if value is None else escape(inert(line.form(column).show(value)), fmt)
    if value is not None:
        text = _marked(text, line, column.key, fmt)
    if not paper or column.names:
        return text
    beside = paper_value(number, panel, line, column)
    return text if beside is None else f"{text} {{{escape(line.form(column).show(beside), fmt)}}}"


def _marked(text: str, line: Line, key: str, fmt: str) -> str:
    if key in line.unfinished:
        text += UNFINISHED
    for keys, mark in ((line.best, "best"), (line.shaded, "shaded")):
        begin, end, sign = _MARKS[mark]
        if key in keys:
            text = f"{text}{sign}" if fmt == "table" else f"{begin}{text}{end}"
    return text
