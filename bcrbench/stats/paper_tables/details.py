"""What few tables need of a log beyond outcomes: spans, stages and dense twins, read again from the runs they show."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from bcrbench.runs.lines import read_lines
from bcrbench.runs.log import CallOutcome
from bcrbench.runs.schema import Stages, Twin
from bcrbench.stats.arms import Arm


class DetailedCall(CallOutcome, kw_only=True, gc=False):
    """A call with its times by stage, its dense twin and the rows that a repair chose."""

    ms: Stages
    e2e_ms: float
    selected_spans: list[tuple[int, int]] | None = None
    twin: Twin | None = None


class _Line(msgspec.Struct, gc=False):
    record: str
    index: int = 0
    calls: list[DetailedCall] = []


@lru_cache(maxsize=256)
def _read(path: Path, changed: int) -> list[_Line]:
    lines, _ = read_lines(path, msgspec.json.Decoder(_Line))
    return sorted((line for line in lines if line.record == "item"), key=lambda line: line.index)


def detailed_items(arm: Arm) -> list[list[DetailedCall]]:
    """The calls of each of the arm's items. Raises UserError when the log cannot be read any more."""
    lines: list[Any] = _read(arm.path, arm.path.stat().st_mtime_ns)
    wanted = {item.index for item in arm.items}
    return [line.calls for line in lines if line.index in wanted]
