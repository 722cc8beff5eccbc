"""One item's full record at a time: where each item's line lies in a log, and the record on it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import msgspec

from bcrbench.errors import UserError
from bcrbench.runs.lines import BAD_JSON, explain, read_bytes, whole_length
from bcrbench.runs.schema import ItemRecord


class _Head(msgspec.Struct, gc=False):
    record: str
    id: str = ""


class Spot(NamedTuple):
    """A line's place in its file, in bytes."""

    start: int
    length: int


_HEAD = msgspec.json.Decoder(_Head)
_BEGIN = re.compile(rb'(\{"record":"item","index":\d+,"id":"[^"\\]*"),')
_ITEM = msgspec.json.Decoder(ItemRecord)


def find_items(path: Path) -> dict[str, Spot]:
    """Where each item's line lies, by id; the log has been read and found whole before."""
    data = read_bytes(path)
    found: dict[str, Spot] = {}
    start, end = 0, whole_length(data)
    view = memoryview(data)
    while start < end:
        stop = data.index(b"\n", start)
        head = _head(view[start:stop])
        if head.record == "item":
            found[head.id] = Spot(start, stop - start)
        start = stop + 1
    return found


def _head(line: memoryview) -> _Head:
    """What a line is. Our writer puts it first, so that the kilobytes after it need not be parsed."""
    begun = _BEGIN.match(line)
    return _HEAD.decode(begun[1] + b"}" if begun else line)


def read_item(path: Path, spot: Spot) -> ItemRecord:
    """The record at a place. Raises UserError where it is not an item's, or the file has changed meanwhile."""
    with path.open("rb") as file:
        file.seek(spot.start)
        line = file.read(spot.length)
    try:
        return _ITEM.decode(line)
    except BAD_JSON as error:
        raise UserError(f"{path}: at byte {spot.start}: {explain(error)}") from None
