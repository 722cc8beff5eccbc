"""An order file: which of a task's items run, and in which order.

One item a line, by its id or by the number in it; blank lines and lines that start with # are skipped. A line may also
be a JSON object whose `task_id` or `name` is the id, so that a data set's own file can be given, and a whole file may
be one JSON list. `HumanEval/23`, `23` and `HumanEval_23_strlen` are the same item.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bcrbench.errors import UserError, told
from bcrbench.tasks.base import Item

_KEYS = ("task_id", "name")
_NUMBER = re.compile(r"(?:.*?[/_])?0*([0-9]+)(?:_.*)?", re.DOTALL)


def ordered(items: Sequence[Item], path: Path) -> list[Item]:
    """The items that an order file names. Raises UserError, with its line, for one that is unknown or named twice."""
    by_id = {item.id: item for item in items}
    numbers = Counter(_number(item.id) for item in items)
    by_number = {number: item for item in items if numbers[number := _number(item.id)] == 1}
    found: dict[str, Item] = {}
    for where, name in _names(path):
        item = by_id.get(name) or by_number.get(_number(name) or name)
        if item is None:
            raise UserError(f"{where}: unknown item {told(name)}; the task has {len(items)}, from {items[0].id!r}")
        if item.id in found:
            raise UserError(f"{where}: item {item.id!r} is named twice, expected once")
        found[item.id] = item
    if not found:
        raise UserError(f"order {path}: names no item, expected at least one")
    return list(found.values())


def _number(name: str) -> str | None:
    found = _NUMBER.fullmatch(name)
    return found[1] if found else None


def _names(path: Path) -> Iterator[tuple[str, str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"order {path}: cannot be read ({error}), expected a text file of item ids") from error
    if text.lstrip().startswith("["):
        yield from ((f"{path}: entry {n}", _name(f"{path}: entry {n}", value)) for n, value in _listed(path, text))
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.startswith("#"):
            yield f"{path}:{number}", _of_line(f"{path}:{number}", line.strip())


def _listed(path: Path, text: str) -> Iterator[tuple[int, Any]]:
    try:
        return enumerate(json.loads(text), start=1)
    except (ValueError, RecursionError) as error:
        raise UserError(f"order {path}: not a JSON list of items ({error})") from error


def _of_line(where: str, line: str) -> str:
    if not line.startswith("{"):
        return line
    try:
        return _name(where, json.loads(line))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not a JSON object ({error})") from error


def _name(where: str, value: Any) -> str:
    """An item's id as it was given: text, a number, or an object that has one of the keys."""
    if isinstance(value, dict):
        value = next((value[key] for key in _KEYS if key in value), None)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UserError(f"{where}: expected an id, a number, or an object with {' or '.join(map(repr, _KEYS))}")
    return str(value)
