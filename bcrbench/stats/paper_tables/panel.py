"""A table of the paper as data: columns, rows, and what must be said below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bcrbench.stats.arms import Arm
from bcrbench.stats.paper_tables.forms import FORMS, Form


@dataclass(frozen=True)
class Column:
    """A column: its key in records, its heading, and the kind of its values (a name in `FORMS`)."""

    key: str
    head: str
    kind: str = "text"
    names: bool = False  # says which row it is, and is no measurement
    shown: bool = True  # else it is in records only


@dataclass
class Line:
    """A row: `name` is its place in the paper's printed values; None or no value is a missing cell."""

    name: str
    values: dict[str, Any]
    unfinished: set[str] = field(default_factory=set)  # keys whose runs did not complete
    best: set[str] = field(default_factory=set)  # what the paper prints in bold
    shaded: set[str] = field(default_factory=set)
    kind: str | None = None  # of its shown measurements, where rows of one table measure different things

    def form(self, column: Column) -> Form:
        """How the row's value of a column is shown."""
        own = self.kind is not None and column.shown and not column.names
        return FORMS[self.kind if own and self.kind is not None else column.kind]

    def put(self, key: str, value: Any, *arms: Arm | None) -> None:
        """Set a value, and remember when a run behind it did not complete."""
        self.values[key] = value
        if value is not None and any(arm is not None and not arm.complete for arm in arms):
            self.unfinished.add(key)


@dataclass
class Panel:
    """One grid under a title; `name` is the paper's, such as 4(a), `place` tells apart panels of several cells."""

    name: str
    title: str
    columns: list[Column]
    lines: list[Line]
    place: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def mark_best(lines: Sequence[Line], key: str, which: str = "best") -> None:
    """Mark the highest values of a column among these rows; ties are all marked."""
    known = [line.values[key] for line in lines if line.values.get(key) is not None]
    for line in lines:
        if known and line.values.get(key) == max(known):
            getattr(line, which).add(key)
