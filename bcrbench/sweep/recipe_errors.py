"""A mistake in a recipe as one line: file, line, key, value, what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from bcrbench.errors import UserError, told, unknown
from bcrbench.settings import check_values
from bcrbench.yaml_file import line_of, line_of_key

Keys = list[str | int]

_WHERE = re.compile(r"(?P<reason>.*?)(?: - at `(?P<place>.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")
_FIELD = re.compile(r"unknown field `(.*)`")
_VALUE = re.compile(r"[Ii]nvalid enum value '(.*)'")


def explained(
    path: Path, raw: Any, error: Exception, known: Callable[[Keys], Iterable[str]], values: Iterable[str] = ()
) -> UserError:
    """The error for what does not fit the schema. `known` gives the keys of a place, `values` those of a choice."""
    found = _WHERE.fullmatch(str(error))
    assert found is not None  # the pattern fits every text
    keys = _keys(found["place"] or "")
    field = _FIELD.search(found["reason"])
    if field is not None:
        return unknown(f"key in {place(path, [*keys, field[1]])}", field[1], known(keys))
    value = _VALUE.search(found["reason"])
    if value is not None and keys:
        return unknown(f"{keys[-1]} in {place(path, keys)}", value[1], values)
    reason = found["reason"][:1].lower() + found["reason"][1:]
    return UserError(f"{place(path, keys)}: {spelled(keys) or 'all of it'}: {told(_at(raw, keys))}: {reason}")


def _at(raw: Any, keys: Keys) -> Any:
    """What stands at a place; the nearest above it where the place itself cannot be reached."""
    for key in keys:
        try:
            raw = raw[key]
        except (TypeError, LookupError):
            break
    return raw


def check_settings(path: Path, keys: Sequence[str | int], values: dict[str, Any]) -> None:
    """Raise UserError, naming the line, for a setting that does not exist or cannot have its value."""
    for name, value in values.items():
        try:
            check_values(f"recipe {path.name}", {name: value})
        except UserError:  # lines cost time to find
            check_values(place(path, [*keys, name]), {name: value})


def place(path: Path, keys: Sequence[str | int]) -> str:
    """A place in a recipe in words: its file, and the line where that can be told."""
    if not keys:
        return f"recipe {path.name}"
    line = line_of(path, *keys) if isinstance(keys[-1], int) else line_of_key(path, *keys)
    return f"recipe {path.name}" + (f", line {line}" if line is not None else "")


def spelled(keys: Sequence[str | int]) -> str:
    """`profiles.demo.cells[0]`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.removeprefix(".")


def _keys(place: str) -> Keys:
    found: Keys = []
    for name, number in _STEP.findall(place.removeprefix("$")):
        if name or number:
            found.append(name or int(number))
    return found
