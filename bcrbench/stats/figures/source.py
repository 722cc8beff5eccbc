"""Logs as figures and the report page need them: what statistics read, and each call's stages and gate besides.

Full records of a large sweep take gigabytes; texts, ids and distances stay unread here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from bcrbench.runs.lines import read_lines
from bcrbench.runs.log import CallOutcome, ItemOutcome, Log, RowCounts, arrange
from bcrbench.runs.schema import BenchRecord, EndRecord, GradeRecord, ProbeRecord, RunRecord, Stages, Twin

if TYPE_CHECKING:
    from bcrbench.stats.arms import Arm


class GateFacts(msgspec.Struct, gc=False):
    """The part of a gate's decision that figures draw."""

    segment: str
    anchors: int


class FigureRows(RowCounts, kw_only=True, gc=False):
    """The part of a call's rows that figures need."""

    predicted: int = 0


class FigureCall(CallOutcome, kw_only=True, gc=False):
    """A call as statistics see it, with its agent, stages and gate."""

    agent: str
    rows: FigureRows
    ms: Stages
    twin: Twin | None = None
    gate: list[GateFacts] = []


class FigureItem(ItemOutcome, kw_only=True, tag_field="record", tag="item", gc=False):
    """An item as statistics see it, with richer calls."""

    calls: list[FigureCall]  # type: ignore[assignment]  # nobody writes to it


_Record = RunRecord | FigureItem | GradeRecord | ProbeRecord | BenchRecord | EndRecord
_DECODER: msgspec.json.Decoder[_Record] = msgspec.json.Decoder(_Record)


def read_for_figures(path: Path | str) -> Log[ItemOutcome]:
    """Read a log for figures and pages; every statistic takes it too. Raises as `runs.log.read_log` does."""
    path = Path(path)
    records, torn = read_lines(path, _DECODER)
    return arrange(path, records, torn, ItemOutcome)


def figure_items(arm: Arm) -> list[FigureItem]:
    """The arm's items with their richer calls. Raises TypeError for a log that was not read for figures."""
    if arm.items and not isinstance(arm.items[0], FigureItem):
        raise TypeError(f"{arm.path}: read without stages and gates, expected read_for_figures")
    return cast("list[FigureItem]", arm.items)


def figure_calls(arm: Arm) -> Iterator[FigureCall]:
    """All calls of an arm, in the order in which they ran."""
    for item in figure_items(arm):
        yield from item.calls
