"""The page's tables: accuracies with their intervals, and the paired splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.guards import part_of_task
from bcrbench.stats.page.drawn import Drawn, Scale, drawn, scale
from bcrbench.stats.summary import Row, difference_row, main_row, paired_with


@dataclass(frozen=True)
class Line:
    """One condition's row: its name, how its run ended, numbers as text, and its interval drawn."""

    condition: str
    marks: list[str]  # how the run ended unless it is complete, and what part of the task it took
    cells: dict[str, str]
    interval: Drawn | None


@dataclass(frozen=True)
class Tables:
    """A cell's two tables and the scales of their drawings; a scale is None where there is nothing to draw."""

    accuracies: list[Line]
    accuracy_scale: Scale | None
    pairs: list[Line]
    pair_scale: Scale | None
    reference: str | None


def tables(cell: Cell) -> Tables:
    """Both tables of a cell; the second is empty without a reference."""
    rows = {arm.label: main_row(arm, cell.reference_of(arm)) for arm in cell.arms}
    bounds = [100 * row[key] for row in rows.values() for key in ("ci_low", "ci_high") if row[key] is not None]
    on = scale(bounds) if bounds else None
    anchor = rows[cell.reference.label]["accuracy"] if cell.reference else None
    accuracies = [_accuracy(arm, rows[arm.label], on, anchor) for arm in cell.arms]
    others = [arm for arm in cell.arms if paired_with(cell.reference_of(arm), arm) and arm.items]
    found = {arm.label: difference_row(arm, cell.reference) for arm in others}
    ends = [100 * row[key] for row in found.values() for key in ("diff_low", "diff_high")]
    across = scale([*ends, 0.0]) if ends else None
    pairs = [_pair(arm, rows[arm.label], found[arm.label], across) for arm in others]
    return Tables(accuracies, on, pairs, across, cell.reference.label if cell.reference else None)


def _accuracy(arm: Arm, row: Row, on: Scale | None, anchor: float | None) -> Line:
    interval = None
    if on is not None and row["accuracy"] is not None:
        low, high, at = (100 * row[key] for key in ("ci_low", "ci_high", "accuracy"))
        interval = drawn(on, low, high, at, None if anchor is None else 100 * anchor)
    cells = {
        "solved": "ungraded" if row["correct"] is None else f"{row['correct']}/{row['n']}",
        "accuracy": percent(row["accuracy"]),
        "range": _range(row["ci_low"], row["ci_high"]),
        "reuse": percent(row["reuse_rate"]),
        "rows": number(row["rows_recomputed"], ".1f"),
        "ttft": number(row["ttft_ms"], ".1f"),
        "e2e": number(row["e2e_ms"], ".0f"),
    }
    return Line(arm.label, marks(arm), cells, interval)


def _pair(arm: Arm, row: Row, difference: Row, on: Scale | None) -> Line:
    low, high, at = (100 * difference[key] for key in ("diff_low", "diff_high", "difference"))
    interval = drawn(on, low, high, at, 0.0) if on is not None else None
    cells = {
        "split": f"{row['b']}/{row['c']}",
        "p": p_value(row["p"]),
        "difference": signed(difference["difference"]),
        "range": f"{signed(difference['diff_low'])} to {signed(difference['diff_high'])}",
    }
    return Line(arm.label, marks(arm), cells, interval)


def marks(arm: Arm) -> list[str]:
    """Words that must stand beside every number of a run that is not the whole of its task."""
    found = [] if arm.complete else [str(arm.log.status)]
    part = part_of_task(arm)
    if part is None:
        return found
    _, count, total = part
    return [*found, f"{count} items only" if total is None else f"{count} of {total} items"]


def percent(share: float | None) -> str:
    """A share as percent with one decimal."""
    return number(None if share is None else 100 * share, ".1f")


def signed(share: float) -> str:
    """A difference of shares in points, its sign always shown."""
    return f"{100 * share:+.1f}"


def p_value(p: float | None) -> str:
    """A p with three decimals, never as zero."""
    return "-" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def number(value: Any, form: str) -> str:
    """A number in this format, or a dash."""
    return "-" if value is None else format(value, form)


def _range(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{100 * low:.1f} to {100 * high:.1f}"
