"""Lines of a JSONL file that a person gave: items, recorded pages."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from bcrbench.errors import UserError

T = TypeVar("T")


def read_rows(option: str, path: Path, kind: type[T], expected: str) -> Iterator[tuple[str, T]]:
    """(`file:line`, row) of each line that is not blank, a byte order mark aside; a .gz file is unpacked.

    Split at newline bytes only: JSON text may hold other line separators. Raises UserError for a file that cannot be
    read, naming the option that gave it, and for a line that is not JSON of the kind, saying what was `expected` of it.
    """
    try:
        lines = _bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{option} {path}: cannot be read ({reason}), expected a .jsonl file") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield f"{path}:{number}", msgspec.json.decode(line, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{path}:{number}: expected {expected} ({error})") from error
        except RecursionError as error:
            raise UserError(f"{path}:{number}: expected {expected} (nested too deeply)") from error


def _bytes(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content
