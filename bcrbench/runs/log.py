"""The run log: one JSON line a record, every number in every table computed from it.

`docs/log-schema.md` explains the records. This module reads; `bcrbench.runs.writer`, whose names are repeated here,
writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import msgspec

from bcrbench.errors import UserError
from bcrbench.runs.lines import read_lines
from bcrbench.runs.names import log_name
from bcrbench.runs.schema import (
    BenchRecord,
    EndRecord,
    GradeRecord,
    ItemRecord,
    Outcome,
    ProbeRecord,
    Record,
    RunRecord,
    Served,
)
from bcrbench.runs.writer import LogWriter, ensure_writable, repair_tail

__all__ = [
    "CallOutcome", "ItemOutcome", "Log", "LogWriter", "RowCounts",
    "ensure_writable", "log_name", "read_log", "read_outcomes", "repair_tail",
]  # fmt: skip


class RowCounts(msgspec.Struct, gc=False):
    """The part of a call's rows that statistics need."""

    recomputed: int = 0


class CallOutcome(msgspec.Struct, gc=False):
    """The part of a call that statistics need."""

    role: str
    served: Served
    rows: RowCounts
    ttft_ms: float
    outcome: Outcome | None = None
    warm_up: bool = False


class ItemOutcome(msgspec.Struct, tag_field="record", tag="item", gc=False):
    """The part of an item that statistics need; other fields of its line are skipped unread."""

    index: int
    id: str
    item_hash: str
    text: str
    outcome: Outcome
    calls: list[CallOutcome]
    wall_s: float


ItemT = TypeVar("ItemT", ItemRecord, ItemOutcome)

_FULL: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)
_Slim = RunRecord | ItemOutcome | GradeRecord | ProbeRecord | BenchRecord | EndRecord
_SLIM: msgspec.json.Decoder[_Slim] = msgspec.json.Decoder(_Slim)


@dataclass
class Log(Generic[ItemT]):
    """One log as read: its run record, items in index order, the rest in file order, and how it ended.

    `torn` says that a torn last line was left out.
    """

    path: Path
    run: RunRecord
    items: list[ItemT] = field(default_factory=list)
    grades: list[GradeRecord] = field(default_factory=list)
    probes: list[ProbeRecord] = field(default_factory=list)
    benches: list[BenchRecord] = field(default_factory=list)
    end: EndRecord | None = None
    torn: bool = False

    @property
    def status(self) -> Literal["complete", "cancelled", "failed", "killed"]:
        """How the run ended; `killed` when no end record says so (it may also still be running)."""
        return self.end.status if self.end else "killed"


def read_log(path: Path | str) -> Log[ItemRecord]:
    """Read a whole log, every line checked against the schema.

    Raises UserError for a file that is not a log of ours or of a newer schema, for a bad line (with its number and
    field), and for records that do not fit together.
    """
    path = Path(path)
    records, torn = read_lines(path, _FULL)
    return arrange(path, records, torn, ItemRecord)


def read_outcomes(path: Path | str) -> Log[ItemOutcome]:
    """Read what statistics need, several times faster; checks those fields only. Raises as `read_log` does."""
    path = Path(path)
    records, torn = read_lines(path, _SLIM)
    return arrange(path, records, torn, ItemOutcome)


def arrange(path: Path, records: list[Any], torn: bool, item_type: type[ItemT]) -> Log[ItemT]:
    """Put a file's records into a log, its items of this type or a richer one of it.

    Raises UserError for records that do not fit together.
    """
    log: Log[ItemT] = Log(path, records[0], torn=torn)
    seen: dict[tuple[str, object], int] = {}  # (field, value) of the items so far -> line number
    measured: dict[tuple[object, ...], int] = {}
    for number, record in enumerate(records[1:], 2):
        if isinstance(record, item_type):
            _check_item(log, seen, number, record)
            log.items.append(record)
        elif isinstance(record, GradeRecord):
            log.grades.append(record)
        elif isinstance(record, ProbeRecord):
            key = (record.prompt, record.unit, record.chooser, record.operator, record.seed)
            _check_measurement(log, measured, number, "probe", key)
            log.probes.append(record)
        elif isinstance(record, BenchRecord):
            _check_measurement(log, measured, number, "bench", (record.workload, record.condition, record.round))
            log.benches.append(record)
        elif isinstance(record, EndRecord):
            _check_end(log, number, record)
            log.end = record
        else:
            raise UserError(f"{path}:{number}: record: a second run record, expected one on the first line only")
    log.items.sort(key=lambda item: item.index)
    if log.run.stateful:
        _check_gaps(log)
    return log


def _check_item(log: Log[ItemT], seen: dict[tuple[str, object], int], number: int, item: ItemT) -> None:
    if log.end:
        raise UserError(f"{log.path}:{number}: record: an item after the end record, expected grade records only")
    for key in (("index", item.index), ("id", item.id)):
        first = seen.setdefault(key, number)
        if first != number:
            name, value = key
            raise UserError(f"{log.path}:{number}: {name}: {value!r} is on line {first} too, expected it once")


def _check_measurement(
    log: Log[ItemT], measured: dict[tuple[object, ...], int], number: int, kind: str, key: tuple[object, ...]
) -> None:
    if log.end:
        raise UserError(f"{log.path}:{number}: record: a {kind} after the end record, expected grade records only")
    first = measured.setdefault((kind, *key), number)
    if first != number:
        raise UserError(f"{log.path}:{number}: record: the same measurement is on line {first} too, expected it once")


def _check_end(log: Log[ItemT], number: int, end: EndRecord) -> None:
    if log.end:
        raise UserError(f"{log.path}:{number}: record: a second end record, expected one")
    if end.status == "complete" and end.items != len(log.items):
        raise UserError(f"{log.path}:{number}: items: {end.items}, expected {len(log.items)}, the items in the file")


def _check_gaps(log: Log[ItemT]) -> None:
    for before, after in pairwise(log.items):
        if after.index != before.index + 1:
            missing = before.index + 1
            raise UserError(f"{log.path}: index: {missing} is missing, expected every item of a stateful run")
