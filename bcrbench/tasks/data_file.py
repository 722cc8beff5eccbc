"""Lines of a JSONL data file, as every task reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from bcrbench import jsonl_file

T = TypeVar("T")


def read_rows(path: Path, kind: type[T], expected: str) -> Iterator[tuple[str, T]]:
    """(`file:line`, row) of each line of `--data`. Raises UserError as `bcrbench.jsonl_file.read_rows` does."""
    return jsonl_file.read_rows("--data", path, kind, expected)
