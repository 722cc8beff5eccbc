"""Rows of a hub data set, through `datasets`. Only this module uses the network, and only for a name that was given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bcrbench.errors import UserError

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_FILE_ENDINGS = (".jsonl", ".json", ".gz", ".csv", ".parquet")


def is_hub_name(data: str) -> bool:
    """Whether a text has the form OWNER/NAME and does not look like a file's path."""
    return bool(_NAME.fullmatch(data)) and not data.endswith(_FILE_ENDINGS)


def hub_rows(name: str, config: str, split: str) -> Iterator[tuple[str, Any]]:
    """(`NAME, row i`, row) of a data set's split, in its order.

    Raises UserError when `datasets` is not installed, and for a data set that cannot be loaded.
    """
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise UserError(f"--data {name}: needs the package 'datasets' (pip install datasets)") from error
    try:
        rows = load_dataset(name, config, split=split)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"--data {name}: cannot be loaded, expected a hub data set with config {config!r} and split {split!r}, or "
            f"a file that is there ({reason})"
        ) from error
    return ((f"{name}, row {index}", row) for index, row in enumerate(rows))
