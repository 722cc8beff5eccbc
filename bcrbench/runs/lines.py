"""Lines of a run log, from bytes to validated records, with a torn tail told apart from damage."""

from __future__ import annotations

import os
import re
from pathlib import Path
from stat import S_ISREG
from typing import Any, TypeVar

import msgspec

from bcrbench.errors import UserError
from bcrbench.runs.schema import SCHEMA_VERSION

R = TypeVar("R")

# RecursionError: a line of thousands of brackets is damage like any other.
BAD_JSON = (msgspec.DecodeError, RecursionError)

_RUN_PREFIX = b'{"record":"run"'
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<where>.*)`)?", re.DOTALL)
_KEY = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<key>.*)`", re.DOTALL)


class _Header(msgspec.Struct):
    record: str
    schema_version: Any = None


def read_lines(path: Path, decoder: msgspec.json.Decoder[R]) -> tuple[list[R], bool]:
    """The records of all whole lines, in file order, and whether a torn tail was left out.

    Raises UserError for a file that cannot be read, is empty, is not a log, is of a newer schema, or holds a bad
    line; the message then begins with `file:line: field:`.
    """
    data = read_bytes(path)
    whole = whole_length(data)
    check_first_line(path, data, whole)
    body = data[:whole]
    try:
        records = decoder.decode_lines(body)
    except BAD_JSON:
        raise _bad_line(path, body, decoder) from None
    if len(records) != _newlines(body):  # a blank line, or two records on one: the decoder lets both pass
        raise _bad_line(path, body, decoder)
    return records, whole < len(data)


def _newlines(body: bytes) -> int:
    """How many newlines; with lines of kilobytes `find` skips faster than `count` counts."""
    count, at = 0, body.find(b"\n")
    while at >= 0:
        count, at = count + 1, body.find(b"\n", at + 1)
    return count


def read_bytes(path: Path) -> bytes:
    """The file's bytes; of what has no size and does not begin like a log, its beginning: it may have no end.

    Raises UserError when it cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            if S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.readall()
            start = file.read(len(_RUN_PREFIX)) or b""
            return start + file.readall() if start.strip(b"\0") and is_torn_start(start) else start

    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}), expected a run log") from error


def whole_length(data: bytes) -> int:
    """How many bytes from the start are whole lines.

    What follows is a torn tail: bytes after the last newline, or a last line with NUL bytes in it, which a file
    system leaves behind after a power loss and JSON never holds.
    """
    end = data.rfind(b"\n") + 1
    last = data.rfind(b"\n", 0, max(end - 1, 0)) + 1
    return last if b"\0" in data[last:end] else end


def check_first_line(path: Path, data: bytes, whole: int) -> None:
    """Raise UserError unless the file begins with a whole run record of a schema that we know."""
    if not data:
        raise UserError(f"{path}: empty, expected a run record on the first line")
    if not whole and is_torn_start(data):
        raise UserError(f"{path}:1: the run record is torn and no item was logged, expected a whole first line")
    first = data[: data.find(b"\n")] if whole else data
    header = _header(first)
    if header is None or header.record != "run":
        shown = first[:60].decode(errors="replace")
        raise UserError(f"{path}: not a bcrbench log: first line {shown!r}, expected a run record")
    version = header.schema_version
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UserError(f"{path}:1: schema_version: {version!r}, expected a whole number from 1 to {SCHEMA_VERSION}")
    if version > SCHEMA_VERSION:
        raise UserError(
            f"{path}:1: schema_version: {version} was written by a newer bcrbench, expected {SCHEMA_VERSION} or less"
        )


def is_torn_start(data: bytes) -> bool:
    """Whether bytes without a whole line are the beginning of one of our logs (or only NULs)."""
    start = data.rstrip(b"\0")[: len(_RUN_PREFIX)]
    return _RUN_PREFIX.startswith(start)


def _header(line: bytes) -> _Header | None:
    try:
        return msgspec.json.decode(line, type=_Header)
    except BAD_JSON:
        return None


def _bad_line(path: Path, body: bytes, decoder: msgspec.json.Decoder[R]) -> UserError:
    for number, line in enumerate(body.split(b"\n")[:-1], 1):
        try:
            decoder.decode(line)
        except BAD_JSON as error:
            return UserError(f"{path}:{number}: {explain(error)}" if line.strip() else _blank(path, number))
    return UserError(f"{path}: lines cannot be read, expected one JSON object a line")


def _blank(path: Path, number: int) -> str:
    return f"{path}:{number}: line is blank, expected one JSON object"


def explain(error: Exception) -> str:
    """A decoding error as `field: what was expected`."""
    if not isinstance(error, msgspec.ValidationError):
        return f"not a JSON object ({_lower(str(error))}), expected one record"
    found = _PLACE.fullmatch(str(error))
    what, where = (found["what"], found["where"] or "") if found else (str(error), "")
    key = _KEY.fullmatch(what)
    if not key:
        return f"{where or 'record'}: {_lower(what)}"
    field = f"{where}.{key['key']}" if where else key["key"]
    if key["what"] == "contains unknown":
        return f"{field}: unknown field, expected those of schema version {SCHEMA_VERSION}"
    return f"{field}: missing, expected by schema version {SCHEMA_VERSION}"


def _lower(text: str) -> str:
    return text if text[:2].isupper() else text[:1].lower() + text[1:]
