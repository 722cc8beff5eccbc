"""The log files that a person named."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bcrbench.errors import UserError


def log_files(paths: Iterable[Path]) -> list[Path]:
    """Files as they are, a directory's *.jsonl files in order of name, each once.

    Raises UserError for a directory without any.
    """
    files: list[Path] = []
    for path in paths:
        inside = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not inside:
            raise UserError(f"{path}: holds no *.jsonl file, expected run logs")
        files += inside
    return list(dict.fromkeys(files))
