"""The reference grid: conditions by task and agent count, which Tables 3, 4, 5(b) and 12 to 15 read (section 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from bcrbench.stats.arms import Arm
from bcrbench.stats.paired import Split
from bcrbench.stats.paper_tables.build import Build
from bcrbench.stats.paper_tables.measures import pooled
from bcrbench.stats.paper_tables.panel import Column, Line
from bcrbench.stats.paper_tables.places import TITLES, Group, groups
from bcrbench.stats.paper_tables.wants import grid_wants

Cells = dict[int, Arm | None]
Measure = Callable[[Arm | None], float | None]


class Pairing(NamedTuple):
    """A cell's split and the two runs it comes from."""

    split: Split | None
    arms: tuple[Arm | None, Arm | None]


LABELS = {name: want.label for name, want in grid_wants("gsm8k", 0.3).items()}


def shown_groups(made: Build) -> list[Group]:
    """The blocks to show: the paper's tasks as soon as logs hold one of them, else what they hold."""
    found = groups(made.cells)
    own = [group for group in found if group.task not in TITLES]
    return found if not own or any(group.cells for group in found if group.task in TITLES) else own


def row(made: Build, group: Group, name: str) -> Cells:
    """A condition's run at each agent count."""
    want = grid_wants(group.task, group.gamma)[name]
    return {count: made.arm(group.cells.get(count), want, group.told(count)) for count in group.counts}


def splits(made: Build, group: Group, first: str, second: str) -> dict[int, Pairing]:
    """What only the first condition solves and what only the second does, at each agent count."""
    one, two = row(made, group, first), row(made, group, second)
    return {
        count: Pairing(made.pair(one[count], two[count], group.told(count)), (one[count], two[count]))
        for count in group.counts
    }


def columns(made: Build, average: bool = False, kind: str = "percent") -> list[Column]:
    """One column a group and agent count, the groups side by side."""
    made_of = []
    for group in shown_groups(made):
        heads = [(str(count), f"{group.title} {count}") for count in group.counts]
        heads += [("avg", f"{group.title} avg")] if average else []
        made_of += [Column(f"{group.key}_{key}", head, kind) for key, head in heads]
    return made_of


def fill(line: Line, group: Group, cells: Cells, measure: Measure, average: bool = False) -> None:
    """Measure a row's runs; the average needs every agent count."""
    values = {count: measure(arm) for count, arm in cells.items()}
    for count, arm in cells.items():
        line.put(f"{group.key}_{count}", values[count], arm)
    known = [value for value in values.values() if value is not None]
    if average and known and len(known) == len(values):
        line.put(f"{group.key}_avg", sum(known) / len(known), *cells.values())


def count_columns(made: Build) -> list[int]:
    """The agent counts of a table that has its groups one below the other."""
    return sorted({count for group in shown_groups(made) for count in group.counts})


def put_splits(line: Line, found: dict[int, Pairing], p: Callable[[Split | None], Any]) -> None:
    """A row of splits with their p, by agent count."""
    for count, pairing in found.items():
        line.put(f"split_{count}", pairing.split, *pairing.arms)
        line.put(f"p_{count}", p(pairing.split), *pairing.arms)


def put_pooled(line: Line, key: str, found: Iterable[Pairing]) -> None:
    """The sum of a row's splits, counts only; missing unless every cell is there."""
    pairings = list(found)
    arms = [arm for pairing in pairings for arm in pairing.arms]
    line.put(key, pooled([pairing.split for pairing in pairings]), *arms)


def split_columns(counts: Sequence[int]) -> list[Column]:
    """A split and its p by agent count."""
    made = [(Column(f"split_{n}", f"{n} b/c", "split"), Column(f"p_{n}", f"{n} p", "p")) for n in counts]
    return [column for pair in made for column in pair]
