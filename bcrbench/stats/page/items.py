"""The browser's data: every item's outcomes, and the calls of as many items as the page has room for.

Strings are kept once and named by number. Items on which two conditions of a cell disagree come first; an item is kept
with all of its conditions or not at all. Long texts lose their middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from bcrbench.runs.schema import Call, Feedback, Gate, GradeRecord, ItemRecord, Twin
from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.figures.collect import cell_names
from bcrbench.stats.page.embed import to_json
from bcrbench.stats.page.lines import find_items, read_item

BUDGET = 10_000_000  # bytes of calls and texts
HEAD, TAIL = 15_000, 5_000  # characters of a text that are kept
MISSES = 20  # items in a row without room, after which the rest is not tried
MOST_IDS = 200  # draft ids and spans of a call that are kept

GATE = ("segment", "rows", "anchors", "available", "decision", "why", "entropy", "limit")
STAGES = ("base", "gate", "assemble", "draft", "select", "repair", "first_token", "decode", "anchor", "response")
ROWS = ("cached", "exact", "predicted", "selected", "recomputed", "transplanted", "selected_exact")
CALL = (
    "agent", "role", "served", "why", "prompt_tokens", "prompt_hash", "rows", "text", "tokens", "finish", "ms",
    "ttft_ms", "e2e_ms", "gate", "draft_ids", "spans", "skipped", "gold", "prediction", "outcome",
    "feedback", "twin", "warm_up",
)  # fmt: skip
ITEM = ("text", "prediction", "gold", "wall_s", "calls", "grades")


@dataclass
class Strings:
    """Each string once, by its number; a long one as [head, characters left out, tail]."""

    kept: list[str | list[Any]] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)
    _sizes: list[int] = field(default_factory=list)
    bytes: int = 0

    def put(self, text: str | None) -> int:
        """A string's number; -1 for None."""
        if text is None:
            return -1
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = len(self.kept)
            self.kept.append(cut(text))
            self._sizes.append(len(to_json(self.kept[-1])) + 1)
            self.bytes += self._sizes[-1]
        return place

    def forget(self, count: int) -> None:
        """Drop all strings but the first `count`."""
        for text in [text for text, place in self._places.items() if place >= count]:
            del self._places[text]
        self.bytes -= sum(self._sizes[count:])
        del self.kept[count:], self._sizes[count:]


def cut(text: str) -> str | list[Any]:
    """A text as the page keeps it."""
    left = len(text) - HEAD - TAIL
    return text if left <= 0 else [text[:HEAD], left, text[-TAIL:]]


@dataclass
class Browser:
    """What the browser shows, ready for the page, and a sentence on what it lacks."""

    data: dict[str, Any]
    told: str


class Shelf:
    """A cell's logs, opened for reading one item at a time."""

    def __init__(self, cell: Cell, name: str) -> None:
        self.arms = cell.arms
        self.reference = cell.reference
        # The first arm's order, then what others have besides.
        self.ids = list(dict.fromkeys(chain.from_iterable(arm.ids for arm in cell.arms)))
        self.name = name
        self._spots = [find_items(arm.path) for arm in cell.arms]
        self._grades = [_by_id(arm) for arm in cell.arms]

    def outcomes(self) -> list[list[str | None]]:
        """Outcomes by arm, in the order of the ids; None where an arm lacks the item."""
        tables = [dict(zip(arm.ids, arm.outcomes, strict=True)) for arm in self.arms]
        return [[table.get(name) for name in self.ids] for table in tables]

    def detail(self, position: int, strings: Strings) -> list[Any]:
        """One item's records by arm; None where an arm lacks it."""
        name = self.ids[position]
        found: list[Any] = []
        for arm, spots, grades in zip(self.arms, self._spots, self._grades, strict=True):
            spot = spots.get(name)
            found.append(_item(read_item(arm.path, spot), grades.get(name, ()), strings) if spot else None)
        return found


def _by_id(arm: Arm) -> dict[str, list[GradeRecord]]:
    found: dict[str, list[GradeRecord]] = {}
    for grade in arm.log.grades:
        found.setdefault(grade.id, []).append(grade)
    return found


def browser(cells: Sequence[Cell], budget: int = BUDGET) -> Browser:
    """Build the browser's data within a budget of bytes. Raises UserError for an item that breaks the schema."""
    strings = Strings()
    shelves = [Shelf(cell, name) for cell, name in zip(cells, cell_names(cells), strict=True)]
    shown = [_outline(shelf, strings) for shelf in shelves]
    order = sorted(rank for number, shelf in enumerate(shelves) for rank in _ranks(shelf, number))
    room, missed, kept = budget - strings.bytes, 0, 0
    for _, position, number in order:
        before, held = len(strings.kept), strings.bytes
        detail = shelves[number].detail(position, strings)
        size = len(to_json(detail)) + strings.bytes - held
        if size > room:
            strings.forget(before)
            missed += 1
            if missed > MISSES:
                break
            continue
        shown[number]["details"][str(position)] = detail
        room, missed, kept = room - size, 0, kept + 1
    fields = {"call": CALL, "item": ITEM, "gate": GATE, "stages": STAGES, "rows": ROWS}
    return Browser({"fields": fields, "cells": shown, "strings": strings.kept}, _told(order, shown, kept))


def _ranks(shelf: Shelf, number: int) -> Iterator[tuple[bool, int, int]]:
    """Items in the order in which they get room: whether all conditions agree, place in the run, number of the cell."""
    for position, outcomes in enumerate(zip(*shelf.outcomes())):
        yield len({outcome == "correct" for outcome in outcomes if outcome is not None}) < 2, position, number


def _outline(shelf: Shelf, strings: Strings) -> dict[str, Any]:
    return {
        "name": shelf.name,
        "conditions": [arm.label for arm in shelf.arms],
        "status": [arm.log.status for arm in shelf.arms],
        "graders": [arm.grader for arm in shelf.arms],
        "reference": shelf.arms.index(shelf.reference) if shelf.reference else None,
        "ids": shelf.ids,
        "outcomes": [[strings.put(outcome) for outcome in outcomes] for outcomes in shelf.outcomes()],
        "details": {},
    }


def _item(item: ItemRecord, graded: Sequence[GradeRecord], strings: Strings) -> list[Any]:
    put = strings.put
    grades = [[put(one.grader), one.grader_version, put(one.prediction), put(one.outcome)] for one in graded]
    calls = [_call(call, strings) for call in item.calls]
    return [put(item.text), put(item.prediction), put(item.gold), round(item.wall_s, 3), calls, grades]


def _call(call: Call, strings: Strings) -> list[Any]:
    put = strings.put
    spans = call.selected_spans
    return [
        put(call.agent), put(call.role), put(call.served), put(call.why), call.prompt_tokens, put(call.prompt_hash),
        [getattr(call.rows, name) for name in ROWS], put(call.text), len(call.ids), put(call.finish),
        [round(getattr(call.ms, name), 2) for name in STAGES], round(call.ttft_ms, 2), round(call.e2e_ms, 1),
        [_gate(gate, strings) for gate in call.gate], _some(call.draft_ids), _some(spans), put(call.skipped),
        put(call.gold), put(call.prediction), put(call.outcome), _feedback(call.feedback, strings), _twin(call.twin),
        call.warm_up,
    ]  # fmt: skip


def _feedback(said: Feedback | None, strings: Strings) -> list[int] | None:
    return None if said is None else [strings.put(said.tool), strings.put(said.outcome), strings.put(said.text)]


def _twin(twin: Twin | None) -> list[float] | None:
    return None if twin is None else [round(twin.ttft_ms, 2), round(twin.e2e_ms, 1)]


def _gate(gate: Gate, strings: Strings) -> list[Any]:
    bits = [None if value is None else round(value, 4) for value in (gate.entropy, gate.limit)]
    texts = [strings.put(gate.decision), strings.put(gate.why)]
    return [strings.put(gate.segment), gate.rows, gate.anchors, gate.available, *texts, *bits]


def _some(values: Sequence[Any] | None) -> list[Any] | None:
    """The first of a list, with the count of all in front."""
    return None if values is None else [len(values), *values[:MOST_IDS]]


def _told(order: Sequence[tuple[bool, int, int]], shown: Sequence[dict[str, Any]], kept: int) -> str:
    if kept == len(order):
        return ""
    discordant = [(position, number) for agree, position, number in order if not agree]
    have = sum(str(position) in shown[number]["details"] for position, number in discordant)
    return (
        f"Calls and texts of {kept} of {len(order)} items are in this page, discordant items first "
        f"({have} of {len(discordant)}); the others' were left out to keep it small. Their outcomes are all here. "
        "A report of fewer logs holds more."
    )
