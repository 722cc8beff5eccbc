"""What few tables need of a log beyond outcomes: spans, stages and dense twins, read again from the runs they show."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

from bcrbench.runs.lines import read_lines
from bcrbench.runs.log import CallOutcome
from bcrbench.runs.schema import EndRecord, GradeRecord, ProbeRecord, RunRecord, Stages, Twin
from bcrbench.stats.arms import Arm


class DetailedCall(CallOutcome, kw_only=True, gc=False):
    """A call with its times by stage, its dense twin and the rows that a repair chose."""

    ms: Stages
    e2e_ms: float
    selected_spans: list[tuple[int, int]] | None = None
    twin: Twin | None = None


class _Item(msgspec.Struct, tag_field="record", tag="item", gc=False):
    index: int
    calls: list[DetailedCall]


_DECODER: msgspec.json.Decoder[RunRecord | _Item | GradeRecord | ProbeRecord | EndRecord] = msgspec.json.Decoder(
    RunRecord | _Item | GradeRecord | ProbeRecord | EndRecord
)


@lru_cache(maxsize=64)
def _read(path: Path, changed: int) -> list[_Item]:
    lines, _ = read_lines(path, _DECODER)
    return sorted((line for line in lines if isinstance(line, _Item)), key=lambda line: line.index)


def detailed_items(arm: Arm) -> list[list[DetailedCall]]:
    """The calls of each of the arm's items. Raises UserError when the log cannot be read any more."""
    items = _read(arm.path, arm.path.stat().st_mtime_ns)
    wanted = {item.index for item in arm.items}
    return [item.calls for item in items if item.index in wanted]
