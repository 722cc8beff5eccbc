"""The log files that a person named."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from bcrbench.errors import UserError


def log_files(paths: Iterable[Path]) -> list[Path]:
    """Files as they are, a directory's *.jsonl files in order of name, each once.

    Raises UserError for a directory without any.
    """
    files: list[Path] = []
    for path in paths:
        # os.path answers no, where Path raises for a name that is too long or a folder that may not be searched.
        inside = sorted(path.glob("*.jsonl")) if os.path.isdir(path) else [path]
        if not inside:
            raise UserError(f"{path}: holds no *.jsonl file, expected run logs")
        files += inside
    return list(dict.fromkeys(files))
