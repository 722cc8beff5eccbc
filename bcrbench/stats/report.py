"""From logs to text: what `bcrbench stats` prints, and what it says beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bcrbench.runs.log import ItemOutcome, Log
from bcrbench.stats import analyses, guards
from bcrbench.stats.arms import Arm, make_arms
from bcrbench.stats.cells import Cell, make_cells
from bcrbench.stats.memory import SAID as MEMORY_SAID
from bcrbench.stats.memory import memory_row
from bcrbench.stats.memory import shown as memory_shown
from bcrbench.stats.paired import split
from bcrbench.stats.summary import Row, agent_rows, difference_row, main_row, paired_with
from bcrbench.stats.tables import Table, footnotes, render_records, render_tables
from bcrbench.stats.times import all_times, shown

Extra = Sequence[tuple[str, Sequence[analyses.Placed]]]
PART = "‡"  # marks a run of a part of its task's items


@dataclass(frozen=True)
class Options:
    """What a person may ask of the statistics."""

    vs: str | None = None
    intersect: bool = False
    grader: str | None = None
    difference: bool = False
    agents: bool = False
    latency: bool = False
    memory: bool = False
    paired: bool = False
    family: str | None = None  # a correction
    across: bool = False
    cochran: bool = False
    power: int | None = None  # planned items
    sequential: bool = False


@dataclass(frozen=True)
class Report:
    """A rendered report: the tables, and notes for a reader in the order in which they matter."""

    text: str
    notes: list[str]


@dataclass(frozen=True)
class Asked:
    """What is rendered: each cell's rows, times by arm (its `id`), tables beside them; whether roles and memory are."""

    rows: Sequence[Sequence[Row]]
    times: Mapping[int, Sequence[Row]]
    extra: Extra
    roles: bool
    memory: bool


def report(logs: Sequence[Log[ItemOutcome]], options: Options, fmt: str = "table") -> Report:
    """Compare the logs and render the result. Raises UserError for what must not be compared."""
    arms = make_arms(logs, options.grader)
    cells, notes = make_cells(arms, options.vs, options.intersect)
    notes += [note for cell in cells for note in _cell_notes(cell)]
    rows, said = _all_rows(cells, options)
    times, of_times = all_times(cells, options.family) if options.latency else ({}, [])
    extra, more = _analyses(cells, options)
    notes = [*said, *of_times, *([MEMORY_SAID] if options.memory else []), *more, *notes]
    asked = Asked(rows, times, extra, options.agents, options.memory)
    if fmt in ("csv", "json"):
        return Report(_records(cells, asked, fmt), notes)
    return Report(_tables(cells, asked, fmt), [*_legend(cells), *notes])


def _legend(cells: Sequence[Cell]) -> list[str]:
    references = dict.fromkeys(cell.reference.label for cell in cells if cell.reference and len(cell.arms) > 1)
    return [
        f"b counts the items that only {name} solves, c those that only the row's condition solves; p is exact McNemar"
        for name in references
    ]


def _cell_notes(cell: Cell) -> list[str]:
    notes = [note for arm in cell.arms for note in guards.state_notes(arm)]
    notes += guards.limit_notes(cell.arms)
    notes += guards.identical_notes(cell.arms)
    if cell.reference is None:
        return [*notes, *guards.unpaired_notes(cell.arms), *guards.unlike_notes(cell.arms)]
    for arm in cell.arms:
        if arm is cell.reference:
            continue
        notes += guards.pair_notes(cell.reference, arm)
        reference = cell.reference_of(arm)
        if reference is not None and paired_with(reference, arm):
            few = guards.few_pairs_note(reference, arm, split(reference.solved, arm.solved))
            notes += [few] if few else []
    return notes


def _all_rows(cells: Sequence[Cell], options: Options) -> tuple[list[list[Row]], list[str]]:
    """Each cell's rows, in its arms' order, and what must be said of the columns that were asked for."""
    ps, family = analyses.adjusted(cells, options.family) if options.family else ({}, None)
    said = [family] if family else []
    if options.paired:
        said.append("mid_p: McNemar's mid-p, less conservative than p; paired_se: Miller's, of the difference")
    return [[_row(cell, arm, options, ps) for arm in cell.arms] for cell in cells], said


def _row(cell: Cell, arm: Arm, options: Options, ps: dict[int, float]) -> Row:
    reference = cell.reference_of(arm)
    row = main_row(arm, reference)
    if options.family:
        row[f"p_{options.family}"] = ps.get(id(arm))
    if options.paired:
        row |= analyses.paired_row(arm, reference)
    if options.difference or options.paired:
        row |= difference_row(arm, reference)
    return row


def _analyses(cells: Sequence[Cell], options: Options) -> tuple[Extra, list[str]]:
    """Tables beside the main one, by name, and their notes."""
    made: list[tuple[str, list[analyses.Placed]]] = []
    notes: list[str] = []
    if options.across:
        rows, notes = analyses.across_cells(cells)
        made.append(("items across cells", rows))
    if options.cochran:
        made.append(("Cochran's Q over a cell's conditions", analyses.cochran_rows(cells)))
        notes.append("Cochran's Q: chi-square approximation; does any condition differ?")
    if options.power is not None:
        made.append((f"power at {options.power} items", analyses.power_rows(cells, options.power)))
        notes.append("power: exact, at the row's discordant shares; detectable: smallest difference with power 0.8")
    if options.sequential:
        made.append(("stopping early", analyses.sequential_rows(cells)))
        notes.append("e: wealth of a test martingale on the discordant items; anytime_p: valid however often one looks")
    return made, notes


def _records(cells: Sequence[Cell], asked: Asked, fmt: str) -> str:
    names = _model_names(cells)
    marks = _record_marks(cells)
    records = []
    for cell, own in zip(cells, asked.rows, strict=True):
        where = {**cell.facts, "model": names[id(cell)]} if len(cells) > 1 else {}
        for arm, row in zip(cell.arms, own, strict=True):
            times = {"times": asked.times[id(arm)]} if asked.times else {}
            roles = {"by_role": agent_rows(arm)} if asked.roles else {}
            memory = memory_row(arm) if asked.memory else {}
            records.append(where | {"condition": arm.label} | row | times | roles | memory | marks.get(id(arm), {}))
    several = len(cells) > 1
    for name, made in asked.extra:
        for place, row in made:
            facts = {**place.facts, "model": names[id(place)]} if place is not None and several else {}
            records.append({"analysis": name, **facts, **row})
    return render_records(records, fmt)


def _record_marks(cells: Sequence[Cell]) -> dict[int, Row]:
    """Keys that the records get only where a run is not whole: how it ended, and which part of the task it took."""
    arms = [arm for cell in cells for arm in cell.arms]
    marks: dict[int, Row] = {id(arm): {} for arm in arms}
    if not all(arm.complete for arm in arms):
        for arm in arms:
            marks[id(arm)]["status"] = arm.log.status
    if any(guards.part_of_task(arm) for arm in arms):
        for arm in arms:
            part = guards.part_of_task(arm)
            marks[id(arm)]["of_items"] = part[2] if part else len(arm.items)
    return marks


def _tables(cells: Sequence[Cell], asked: Asked, fmt: str) -> str:
    names = _model_names(cells)
    tables = []
    for cell, own in zip(cells, asked.rows, strict=True):
        title = describe(cell, names[id(cell)])
        tables.append(Table(title, _mark(cell, [[row] for row in own])))
        if asked.times:
            times, paired = (_mark(cell, side) for side in zip(*(shown(asked.times[id(arm)]) for arm in cell.arms)))
            tables.append(Table(f"{title}: times in ms, speed-up over the reference", times))
            tables.append(Table(f"{title}: paired times, by item", paired))
        if asked.roles:
            tables.append(Table(f"{title}: accuracy by role", _mark(cell, [agent_rows(arm) for arm in cell.arms])))
        if asked.memory:
            used = memory_shown([memory_row(arm) for arm in cell.arms])
            tables.append(Table(f"{title}: memory", _mark(cell, [[row] for row in used])))
    tables += [Table(name, [_placed(cells, place, names) | row for place, row in made]) for name, made in asked.extra]
    text = render_tables([table for table in tables if table.rows], fmt)
    parts = [f"{PART} {note}" for note in guards.limit_notes([arm for cell in cells for arm in cell.arms])]
    return f"{text}\n\n{footnotes(parts, fmt)}" if parts else text


def _placed(cells: Sequence[Cell], place: Cell | None, names: dict[int, str]) -> Row:
    """Which cell a row is of, where there are several."""
    return {"cell": describe(place, names[id(place)])} if place is not None and len(cells) > 1 else {}


def _mark(cell: Cell, rows: Sequence[Sequence[Row]]) -> list[Row]:
    """Each arm's rows under its condition, which also says when the run did not complete or took a part of the task."""
    return [{"condition": _marked(arm)} | row for arm, own in zip(cell.arms, rows, strict=True) for row in own]


def _marked(arm: Arm) -> str:
    label = arm.label if arm.complete else f"{arm.label} ({arm.log.status})"
    return f"{label} {PART}" if guards.part_of_task(arm) else label


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
    count, order = len(cell.arms[0].items), guards.look_up(cell.arms[0].run, "items.order")
    told = items if order in (None, "task") else f"{items}, order {order}"
    return ", ".join([*(f"{key} {_flat(value)}" for key, value in facts.items()), f"{count} items ({told})"])


def _flat(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
