"""Which logs of a folder are a recipe's: recipes share their runs, and a folder holds those of many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bcrbench.runs.lines import BAD_JSON
from bcrbench.runs.schema import RunRecord

_PLACE: dict[str, Any] = {
    "task": "quotes",
    "agents": 3,
    "topology": "full",
    "roles": "cycle",
}  # as a run has them unless told
_LONGEST = 1 << 22  # bytes of a run record


@dataclass(frozen=True)
class Wanted:
    """A cell of a recipe: its settings, whether it is measured by a probe, and the recipe's file less its ending."""

    settings: Mapping[str, Any]
    probe: bool = False
    recipe: str = ""


_DECODER = msgspec.json.Decoder(RunRecord)


def peek(path: Path) -> RunRecord | None:
    """A log's first record; None where the file has none that can be read."""
    try:
        with path.open("rb") as file:
            return _DECODER.decode(file.readline(_LONGEST))
    except (OSError, *BAD_JSON):
        return None


def choose(paths: Sequence[Path], wanted: Sequence[Wanted]) -> tuple[list[Path], bool]:
    """The logs of a recipe's cells in the given order, and whether there were any of those.

    A run is of a cell by task, agent count, topology, and whether roles are pinned; of several item sets there, a
    model's is the one of the recipe's data, else of its ids, else of its limit, else the largest. Where no run is of
    any cell, those that the recipe itself made (with other flags) or no recipe did are taken. Files without a first
    record are left to the reader's complaint.
    """
    peeked = {path: peek(path) for path in paths}
    runs = {path: run for path, run in peeked.items() if run is not None and not run.effective.get("bench")}
    chosen = {path for cell in wanted for path in _of_cell(cell, runs)}
    unread = [path for path in paths if peeked[path] is None]
    fit = bool(chosen)
    if not fit:
        own = {None, *(cell.recipe for cell in wanted)}
        chosen = {path for path, run in runs.items() if run.given.get("recipe") in own}
    return [path for path in paths if path in chosen or path in unread], fit


def _of_cell(cell: Wanted, runs: Mapping[Path, RunRecord]) -> Iterable[Path]:
    sets: dict[str, dict[str, list[Path]]] = {}
    for path, run in runs.items():
        if _is_probe(run) == cell.probe and _at(run, cell.settings):
            by_items = sets.setdefault(str(run.cell.get("model")), {})
            by_items.setdefault(str(run.cell.get("items")), []).append(path)
    for by_items in sets.values():
        yield from max(by_items.values(), key=lambda group: _rank(runs[group[0]], cell.settings))


def _is_probe(run: RunRecord) -> bool:
    return run.effective.get("probe") == "units"


def _at(run: RunRecord, settings: Mapping[str, Any]) -> bool:
    had = {"task": run.task, **{key: run.resolved[key] for key in _PLACE if key in run.resolved}}
    had = {"agents": run.cell.get("agents"), "topology": run.cell.get("topology"), **had}
    return all(_kind(had.get(key, value)) == _kind(settings.get(key, value)) for key, value in _PLACE.items())


def _kind(value: Any) -> Any:
    """Which role is pinned makes no other place: `pin:ROLE` is `pin`."""
    return value.partition(":")[0] if isinstance(value, str) else value


def _rank(run: RunRecord, settings: Mapping[str, Any]) -> tuple[bool, bool, bool, int]:
    same = [key in settings and run.resolved.get(key) == settings[key] for key in ("data", "ids", "limit")]
    return same[0], same[1], same[2], run.items.get("count") or 0
