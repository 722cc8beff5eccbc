"""Tables in the formats people paste and programs read: table, md, csv, json, latex."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from bcrbench.errors import inert
from bcrbench.stats.summary import Row

FORMATS = ("table", "md", "csv", "json", "latex")

_STYLES = {"table": "simple", "md": "pipe", "latex": "latex_booktabs"}
_PERCENTS = {
    "accuracy", "ci_low", "ci_high", "reuse_rate", "difference", "diff_low", "diff_high", "budget", "gap_share",
    "paper_gap_share", "paired_se", "b_share", "c_share", "detectable", "bound_share", "copy_share", "off",
    "median_off", "largest_off",
}  # fmt: skip
_ERRORS = {"attention", "coin", "gap", "paper_attention", "paper_coin"}
_TEXTS = {"condition", "role", "time", "against", "cell", "figure", "since", "law"}
_FINE = {"us_a_row_anchor", "us_a_row", "fixed_ms"}
_TIMES_OVER = {"speedup", "speedup_low", "speedup_high", "limit", "faster", "faster_low", "faster_high"}
_PS = {
    "p", "mid_p", "p_holm", "p_bonferroni", "z_p", "t_p", "wilcoxon_p", "wilcoxon_p_holm", "wilcoxon_p_bonferroni",
    "sign_p", "anytime_p",
}  # fmt: skip
_MARKDOWN = str.maketrans({char: f"\\{char}" for char in "|<[`*"})  # what would end a cell or begin something else


@dataclass
class Table:
    """Rows with the same keys, under a title that is printed only among several tables."""

    title: str
    rows: list[Row]


def render_records(rows: Sequence[Row], fmt: str) -> str:
    """Rows for a program: numbers in full, shares as fractions; nested values are columns of their own in CSV."""
    if fmt == "json":
        text = json.dumps([_finite(row) for row in rows], indent=2, ensure_ascii=False, allow_nan=False)
        return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)
    flat = [{_plain(key): _plain(cell) for key, cell in _flatten(_finite(row)).items()} for row in rows]
    columns = list(dict.fromkeys(key for row in flat for key in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue().rstrip("\n")


def _finite(value: Any) -> Any:
    """A value without the infinities that JSON has no word for: null, as what is absent."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> Any:
    """A text that no spreadsheet takes for a formula: an apostrophe before what would begin one."""
    if not isinstance(value, str):
        return value
    return f"'{inert(value)}" if value.startswith(("=", "+", "-", "@")) else inert(value)


def _flatten(row: Row) -> Row:
    """Lists of rows become columns named after their first field: `right_clerk`, `median_ttft_ms`."""
    flat: Row = {}
    for key, value in row.items():
        if not isinstance(value, list):
            flat[key] = value
        elif not all(isinstance(part, dict) for part in value):
            flat[key] = " ".join(map(str, value))
        else:
            for part in value:
                name, *rest = part.items()
                flat |= {f"{field}_{name[1]}": cell for field, cell in rest}
    return flat


def render_tables(tables: Sequence[Table], fmt: str) -> str:
    """Tables for a reader: percents with one decimal, p with three; titled when there are several."""
    parts = [f"{heading(table.title, fmt)}{_grid(table.rows, fmt)}" for table in tables if len(tables) > 1]
    return "\n\n".join(parts or [_grid(table.rows, fmt) for table in tables])


def heading(title: str, fmt: str) -> str:
    """A table's title above it; a comment in LaTeX."""
    title = inert(title)
    return {"table": f"{title}\n", "md": f"**{escape(title, fmt)}**\n\n", "latex": f"% {title}\n"}[fmt]


def escape(text: str, fmt: str) -> str:
    """Text that cannot end a Markdown cell or begin something else; `grid` escapes LaTeX itself."""
    return text.translate(_MARKDOWN) if fmt == "md" else text


def footnotes(notes: Sequence[str], fmt: str) -> str:
    """Notes below a table, one a line: a list in Markdown, comments in LaTeX."""
    begin = {"table": "", "md": "- ", "latex": "% "}[fmt]
    return "\n".join(f"{begin}{escape(inert(note), fmt)}" for note in notes)


def grid(heads: Sequence[str], body: Sequence[Sequence[str]], sides: Sequence[str], fmt: str) -> str:
    """Cells under headings, each column `left` or `right`."""
    import tabulate

    tabulate.MIN_PADDING = 0  # else headers grow by two, and the table no longer fits a usual terminal
    heads = [escape(inert(head), fmt) for head in heads]
    return tabulate.tabulate(body, headers=heads, tablefmt=_STYLES[fmt], colalign=sides, disable_numparse=True)


def _grid(rows: Sequence[Row], fmt: str) -> str:
    columns = list(rows[0]) if rows else []
    body = [[_cell(name, row[name], fmt) for name in columns] for row in rows]
    return grid(columns, body, ["left" if name in _TEXTS else "right" for name in columns], fmt)


def _cell(name: str, value: Any, fmt: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, int | float):
        return _form(name)(value)
    return escape(inert(str(value)), fmt)


def _form(name: str) -> Callable[[float], str]:
    if name in _PERCENTS:
        return lambda value: f"{100 * value:.1f}"
    if name in _ERRORS:
        return lambda value: f"{value:.4f}"
    if name in ("t", "paper_p", "z", "q", "power"):
        return lambda value: f"{value:.2f}"
    if name in _PS:
        return lambda value: "<0.001" if value < 0.001 else f"{value:.3f}"
    if name in _FINE:
        return lambda value: f"{value:.3f}"
    if name.startswith("reached"):
        return lambda value: f"{value:.3f}" if value < 2 else f"{value:.2f}"
    if name in _TIMES_OVER or name.endswith(("ratios", "means")) or name.startswith(("ratios_", "means_")):
        return lambda value: f"{value:.2f}x"
    return lambda value: str(value) if isinstance(value, int) else f"{value:.1f}"
