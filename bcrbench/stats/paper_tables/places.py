"""Where the paper measured: a table's cell by task, agents and roles, found among the cells that logs hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bcrbench.stats.cells import Cell

ITEMS = {"mmlu": 153, "gsm8k": 150, "humaneval": 160}  # the reference grid's, section 4
GAMMAS = {"humaneval": 1.0}  # 0.3 elsewhere
TITLES = {"mmlu": "MMLU", "gsm8k": "GSM8K", "humaneval": "HumanEval"}
COUNTS = (2, 3, 4, 5)


@dataclass(frozen=True)
class Place:
    """The cell of a table as the paper has it. `n` is preferred, the rest required."""

    task: str
    agents: int
    n: int
    pinned: bool = False

    @property
    def told(self) -> str:
        """The place in words."""
        roles = "roles pinned" if self.pinned else "roles cycling"
        return f"{self.task}, {self.agents} agents, {roles}, {self.n} items"


@dataclass
class Group:
    """The cells of one task and model over agent counts: a block of columns or rows of the reference grid."""

    key: str
    title: str
    task: str
    counts: tuple[int, ...]
    cells: dict[int, Cell] = field(default_factory=dict)

    @property
    def gamma(self) -> float:
        """The gate that the paper runs this task with."""
        return GAMMAS.get(self.task, 0.3)

    def told(self, agents: int) -> str:
        """One of its cells in words."""
        return f"{self.task}, {agents} agents"


def agents_of(cell: Cell) -> int | None:
    """How many workers the cell has."""
    agents = cell.facts.get("agents")
    return agents if isinstance(agents, int) else None


def task_of(cell: Cell) -> str:
    """The cell's task."""
    return str(cell.facts.get("task"))


def size_of(cell: Cell) -> int:
    """How many items the cell's fullest log holds."""
    return max(len(arm.items) for arm in cell.arms)


def pinned(cell: Cell) -> bool:
    """Whether every worker has the same role by choice. Logs tell by what was asked for, else by the roles."""
    asked = cell.arms[0].run.resolved.get("roles")
    if isinstance(asked, str):
        return asked.startswith("pin")
    roles = cell.facts.get("roles") or []
    workers = roles[: agents_of(cell) or 0]
    return len(workers) > 1 and len(set(workers)) == 1


def model_of(cell: Cell) -> str:
    """The model's given name."""
    model = cell.arms[0].run.model
    return str(model.get("spec") or model.get("id") or cell.facts.get("model"))


def at(cells: Sequence[Cell], place: Place) -> list[Cell]:
    """The cells at a place, one a model: of the place's size if there is one, else the largest."""
    fitting = [
        cell
        for cell in cells
        if (task_of(cell), agents_of(cell), pinned(cell)) == (place.task, place.agents, place.pinned)
    ]
    return _one_a_model(fitting, place.n)


def _one_a_model(cells: Sequence[Cell], n: int | None) -> list[Cell]:
    best: dict[str, Cell] = {}
    for cell in sorted(cells, key=lambda cell: (size_of(cell) == n, size_of(cell)), reverse=True):
        best.setdefault(str(cell.facts.get("model")), cell)
    return list(best.values())


def groups(cells: Sequence[Cell]) -> list[Group]:
    """The reference grid's blocks: the paper's tasks, present or not, then whatever else the logs hold."""
    blocks: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        if task_of(cell) != "copymachine" and agents_of(cell) is not None:
            blocks.setdefault((task_of(cell), model_of(cell), cell.facts.get("dtype"), pinned(cell)), []).append(cell)
    made = [group for task in TITLES for group in _paper_groups(task, blocks)]
    return made + [
        _group(_named(*key), f"{key[0]} ({key[1]}{', pinned' if key[3] else ''})", key[0], (), block)
        for key, block in blocks.items()
        if key[0] not in TITLES
    ]


def _named(task: str, model: str, dtype: Any, roles_pinned: bool) -> str:
    return f"{task}@{model}" + ("@pinned" if roles_pinned else "")


def _paper_groups(task: str, blocks: dict[tuple[Any, ...], list[Cell]]) -> list[Group]:
    """A task's cells with cycling roles, as in the reference configuration; several when there are several models."""
    own = [(key, block) for key, block in blocks.items() if key[0] == task and not key[3]]
    if not own:
        return [Group(task, TITLES[task], task, COUNTS)]
    if len(own) == 1:
        return [_group(task, TITLES[task], task, COUNTS, own[0][1])]
    return [_group(_named(*key), f"{TITLES[task]} ({key[1]})", task, COUNTS, block) for key, block in own]


def _group(key: str, title: str, task: str, counts: tuple[int, ...], cells: Sequence[Cell]) -> Group:
    by_count: dict[int, list[Cell]] = {}
    for cell in cells:
        by_count.setdefault(agents_of(cell) or 0, []).append(cell)
    chosen = {count: _one_a_model(same, ITEMS.get(task))[0] for count, same in by_count.items()}
    return Group(key, title, task, tuple(sorted({*counts, *chosen})), chosen)
