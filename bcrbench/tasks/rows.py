"""The fields of a data row, and rows put together to an item set: what is alike in every task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bcrbench.errors import UserError, told
from bcrbench.tasks.base import Item


def as_object(where: str, row: Any, fields: str) -> dict[str, Any]:
    """The row itself. Raises UserError, naming the `fields` that were expected, for one that is not an object."""
    if not isinstance(row, dict):
        raise UserError(f"{where}: expected an object with {fields}, not {type(row).__name__}")
    return row


def field_of(where: str, row: Mapping[str, Any], field: str, expected: str) -> Any:
    """The field's value. Raises UserError, saying what was `expected`, for a row without it."""
    if field not in row:
        raise UserError(f"{where}: field {field!r}: missing, expected {expected}")
    return row[field]


def text_of(where: str, row: Mapping[str, Any], field: str) -> str:
    """The field's text, as it is. Raises UserError for a missing field, another type, and blank text."""
    value = field_of(where, row, field, "text")
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{where}: field {field!r}: expected text, not {told(value)}")
    return value


def id_of(where: str, row: Mapping[str, Any], default: str) -> str:
    """The row's own id as text, or the default. Raises UserError for an id that is neither text nor an integer."""
    value = row.get("id", default)
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise UserError(f"{where}: field 'id': expected text or an integer, not {told(value)}")
    return str(value)


def collect(data: str, items: Iterable[tuple[str, Item]], field: str = "id") -> list[Item]:
    """The items of (where, item) pairs. Raises UserError for an id that is given twice, and when there are none."""
    found: dict[str, Item] = {}
    for where, item in items:
        if item.id in found:
            raise UserError(f"{where}: field {field!r}: {told(item.id)} is given twice, expected one row an id")
        found[item.id] = item
    if not found:
        raise UserError(f"--data {data}: no rows, expected at least one")
    return list(found.values())
