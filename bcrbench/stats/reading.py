"""Logs for statistics: what a folder holds, less the files that nothing was written to yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bcrbench.errors import UserError
from bcrbench.runs.lines import is_torn_start
from bcrbench.runs.log import ItemOutcome, Log, read_outcomes

Reader = Callable[[Path], Log[ItemOutcome]]
_LONGEST = 1 << 20  # bytes of a torn first line that are looked at


def read_logs(
    paths: Sequence[Path], reader: Reader = read_outcomes, needed: bool = True
) -> tuple[list[Log[ItemOutcome]], list[str]]:
    """The logs, and a note on each file that holds no whole first line, which is left out.

    Raises UserError for a file that is no log or is damaged in the middle, and, if logs are needed, when none is left.
    """
    logs: list[Log[ItemOutcome]] = []
    notes: list[str] = []
    for path in paths:
        try:
            logs.append(reader(path))
        except UserError:
            told = _nothing_in(path)
            if told is None or (needed and len(paths) == 1):
                raise
            notes.append(f"{path}: {told}, left out")
    if needed and paths and not logs:
        raise UserError(f"{paths[0]}: {len(paths)} files hold no whole line, expected at least one run log")
    return logs, notes


def _nothing_in(path: Path) -> str | None:
    """What a file that a run has not written to yet looks like; None for any other."""
    try:
        with path.open("rb") as file:
            start = file.read(_LONGEST)
    except OSError:
        return None
    if not start:
        return "empty"
    return "its first line is torn and no item was logged" if b"\n" not in start and is_torn_start(start) else None
