"""From logs to text: what `bcrbench stats` prints, and what it says beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bcrbench.runs.log import ItemOutcome, Log
from bcrbench.stats import guards
from bcrbench.stats.arms import Arm, make_arms
from bcrbench.stats.cells import Cell, make_cells
from bcrbench.stats.paired import split
from bcrbench.stats.summary import Row, agent_rows, difference_row, latency_rows, main_row
from bcrbench.stats.tables import Table, render_records, render_tables


@dataclass(frozen=True)
class Options:
    """What a person may ask of the statistics."""

    vs: str | None = None
    intersect: bool = False
    grader: str | None = None
    difference: bool = False
    agents: bool = False
    latency: bool = False


@dataclass(frozen=True)
class Report:
    """A rendered report: the tables, and notes for a reader in the order in which they matter."""

    text: str
    notes: list[str]


def report(logs: Sequence[Log[ItemOutcome]], options: Options, fmt: str = "table") -> Report:
    """Compare the logs and render the result. Raises UserError for what must not be compared."""
    arms = make_arms(logs, options.grader)
    cells, notes = make_cells(arms, options.vs, options.intersect)
    notes += [note for cell in cells for note in _cell_notes(cell)]
    if fmt in ("csv", "json"):
        return Report(_records(cells, options, fmt), notes)
    return Report(_tables(cells, options, fmt), [*_legend(cells), *notes])


def _legend(cells: Sequence[Cell]) -> list[str]:
    references = dict.fromkeys(cell.reference.condition for cell in cells if cell.reference and len(cell.arms) > 1)
    return [
        f"b counts the items that only {name} solves, c those that only the row's condition solves; p is exact McNemar"
        for name in references
    ]


def _cell_notes(cell: Cell) -> list[str]:
    notes = [note for arm in cell.arms for note in guards.state_notes(arm)]
    notes += guards.limit_notes(cell.arms)
    notes += guards.identical_notes(cell.arms)
    for arm in cell.arms:
        if cell.reference is None or arm is cell.reference:
            continue
        notes += guards.pair_notes(cell.reference, arm)
        few = guards.few_pairs_note(cell.reference, arm, split(cell.reference.solved, arm.solved))
        notes += [few] if few else []
    return notes


def _rows(cell: Cell, options: Options) -> list[Row]:
    rows = []
    for arm in cell.arms:
        row = main_row(arm, cell.reference)
        rows.append(row | difference_row(arm, cell.reference) if options.difference else row)
    return rows


def _records(cells: Sequence[Cell], options: Options, fmt: str) -> str:
    names = _model_names(cells)
    records = []
    for cell in cells:
        where = {**cell.facts, "model": names[id(cell)]} if len(cells) > 1 else {}
        for arm, row in zip(cell.arms, _rows(cell, options), strict=True):
            times = {"times": latency_rows(arm, cell.reference)} if options.latency else {}
            roles = {"by_role": agent_rows(arm)} if options.agents else {}
            records.append(where | {"condition": arm.condition} | row | times | roles)
    return render_records(records, fmt)


def _tables(cells: Sequence[Cell], options: Options, fmt: str) -> str:
    names = _model_names(cells)
    tables = []
    for cell in cells:
        title = describe(cell, names[id(cell)])
        tables.append(Table(title, _mark(cell, [[row] for row in _rows(cell, options)])))
        if options.latency:
            times = _mark(cell, [latency_rows(arm, cell.reference) for arm in cell.arms])
            tables.append(Table(f"{title}: times in ms, speed-up over the reference", times))
        if options.agents:
            tables.append(Table(f"{title}: accuracy by role", _mark(cell, [agent_rows(arm) for arm in cell.arms])))
    return render_tables([table for table in tables if table.rows], fmt)


def _mark(cell: Cell, rows: Sequence[Sequence[Row]]) -> list[Row]:
    """Each arm's rows under its condition, which also says so when the run did not complete."""
    return [{"condition": _marked(arm)} | row for arm, own in zip(cell.arms, rows, strict=True) for row in own]


def _marked(arm: Arm) -> str:
    return arm.condition if arm.log.status == "complete" else f"{arm.condition} ({arm.log.status})"


def _model_names(cells: Sequence[Cell]) -> dict[int, str]:
    """A model's given name by cell; the cell's own key (a hash of the weights) beside it where one name means two."""
    meant: dict[str, set[str]] = {}
    for cell in cells:
        meant.setdefault(_spec(cell), set()).add(str(cell.facts.get("model")))
    return {
        id(cell): _spec(cell) if len(meant[_spec(cell)]) == 1 else f"{_spec(cell)}@{cell.facts.get('model')}"
        for cell in cells
    }


def _spec(cell: Cell) -> str:
    run = cell.arms[0].run
    return str(run.model.get("spec") or run.model.get("id") or cell.facts.get("model"))


def describe(cell: Cell, model: str) -> str:
    """One line for a cell: what its conditions share."""
    facts = {**cell.facts, "model": model}
    items = facts.pop("items", None)
    count = len(cell.arms[0].items)
    return ", ".join([*(f"{key} {_flat(value)}" for key, value in facts.items()), f"{count} items ({items})"])


def _flat(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
