"""What every table is built with: the cells, the runs it took, the cells it lacks, and what must be said of both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bcrbench.runs.log import Log
from bcrbench.stats import guards
from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell, cell_key
from bcrbench.stats.paired import Split, split
from bcrbench.stats.paper_tables.places import Place, agents_of, at, model_of, size_of, task_of
from bcrbench.stats.paper_tables.wants import Want


@dataclass
class Build:
    """A table in the making. Tables take runs and pairs from here only, so that nothing is used unsaid."""

    cells: list[Cell]
    probes: list[Log[Any]] = field(default_factory=list)
    intersect: bool = False
    used: dict[tuple[Path, str], Arm] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    missing: dict[str, list[str]] = field(default_factory=dict)  # condition that no log has -> where
    splits: dict[tuple[str, str, str], Split] = field(default_factory=dict)

    def say(self, note: str) -> None:
        """A footnote, once."""
        if note not in self.said:
            self.said.append(note)

    def lack(self, what: str, where: str) -> None:
        """A log that would fill cells shown as missing."""
        places = self.missing.setdefault(what, [])
        if where not in places:
            places.append(where)

    def arm(self, cell: Cell | None, want: Want, where: str) -> Arm | None:
        """The run that fills a row, or None with a footnote on what would."""
        found = want.among(cell) if cell is not None else []
        if not found:
            self.lack(want.told, where)
            return None
        if want.misses(found[0]):
            self.say(f"{want.label}, {where}: the run is {found[0].label}, the paper's is {want.told}")
        alike = [arm.label for arm in found[1:] if want.misses(arm) == want.misses(found[0])]
        if alike:
            self.say(f"{want.label}, {where}: {found[0].label} is shown; {', '.join(alike)} fit too")
        return self.take(found[0])

    def take(self, arm: Arm) -> Arm:
        """Remember that a run is part of the table.

        Raises UserError for one that must not be compared with those of its cell that are in it already.
        """
        if (arm.path, arm.label) not in self.used:
            first = next(iter(self._of_cell(arm)), None)
            self.used[arm.path, arm.label] = arm
            if first is not None:
                guards.check_pair(first, arm, self.intersect or guards.cut_short_note(first, arm) is not None)
        return arm

    def _of_cell(self, arm: Arm) -> list[Arm]:
        """The runs of an arm's cell that are part of the table."""
        key = cell_key(arm, self.intersect)
        return [other for other in self.used.values() if cell_key(other, self.intersect) == key]

    def pair(self, first: Arm | None, second: Arm | None, where: str) -> Split | None:
        """Items that only the first solves, and only the second; None for a missing, ungraded, empty or cut run.

        Raises UserError for two runs that must not be compared.
        """
        if first is None or second is None or first.ungraded or second.ungraded or not (first.items or second.items):
            return None
        cut = None if self.intersect else guards.cut_short_note(second, first)
        guards.check_pair(second, first, self.intersect or cut is not None)
        if cut is not None:
            self.say(cut)
            return None
        if self.intersect:
            first, second = self._common(first, second)
        found = split(first.solved, second.solved)
        self.splits[(first.label, second.label, where)] = found
        return found

    def size(self, first: Arm, second: Arm) -> int:
        """How many items a pairing has."""
        return len(guards.common_ids([first, second])) if self.intersect else len(first.items)

    def _common(self, first: Arm, second: Arm) -> tuple[Arm, Arm]:
        shared = guards.common_ids([first, second])
        if len(shared) < max(len(first.items), len(second.items)):
            self.say(f"--intersect: {first.label} against {second.label} on the {len(shared)} items that both have")
        return first.only(shared), second.only(shared)

    def spots(self, places: Sequence[Place]) -> list[tuple[Place, Cell | None]]:
        """The cells of a table that names its own; every cell of the logs where none of those is there.

        A place without a cell comes back with None.
        """
        found = [(place, cell) for place in places for cell in at(self.cells, place)]
        if found:
            for place, cell in found:
                self._say_size(place, cell)
            absent = [(place, None) for place in places if not any(place is other for other, _ in found)]
            return sorted([*found, *absent], key=lambda spot: places.index(spot[0]))
        others = [cell for cell in self.cells if agents_of(cell) is not None and task_of(cell) != "copymachine"]
        if not others:
            return [(place, None) for place in places]
        self.say(
            f"no log is of the paper's cell ({'; '.join(place.told for place in places)}): the logs' own are shown"
        )
        return [(places[0], cell) for cell in others]

    def _say_size(self, place: Place, cell: Cell) -> None:
        if size_of(cell) != place.n:
            self.say(f"{place.task}, {place.agents} agents, {model_of(cell)}: {size_of(cell)} items, paper {place.n}")

    def footnotes(self) -> list[str]:
        """Everything that must be said below the table, the unusual first."""
        arms = list(self.used.values())
        notes = [note for arm in arms for note in guards.state_notes(arm)]
        notes += self._limits(arms)
        notes += [note for cell in self.cells for note in guards.identical_notes(_of(cell, self.used))]
        notes += [note for cell in self.cells for note in guards.unlike_notes(_of(cell, self.used))]
        notes += _few(self.splits)
        return list(dict.fromkeys([*notes, *self.said, *self._missing()]))

    def _limits(self, arms: Iterable[Arm]) -> Iterator[str]:
        seen: dict[tuple[Any, ...], int] = {}
        for arm in arms:
            part = guards.part_of_task(arm)
            if part is not None:
                key = (arm.run.task, *part)
                seen[key] = seen.get(key, 0) + 1
        for (task, limit, count, total), logs in seen.items():
            how = f"--limit {limit}" if limit is not None else "a choice of ids"
            yield f"{task}: {logs} log{'s' * (logs != 1)} of {count} of {total} items ({how}), not the whole set"

    def _missing(self) -> Iterator[str]:
        by_places: dict[str, list[str]] = {}
        for what, places in self.missing.items():
            by_places.setdefault(condensed(places), []).append(what)
        for told, conditions in by_places.items():
            yield f"-: no log of {', '.join(conditions)} ({told})"


def condensed(places: Iterable[str]) -> str:
    """Places with the agent counts of one task put together."""
    by_task: dict[str, list[str]] = {}
    for place in places:
        found = re.fullmatch(r"(.+), (\d+) agents", place)
        counts = by_task.setdefault(found[1] if found else place, [])
        counts += [found[2]] if found else []
    return "; ".join(f"{task}, {', '.join(counts)} agents" if counts else task for task, counts in by_task.items())


def _of(cell: Cell, used: dict[tuple[Path, str], Arm]) -> list[Arm]:
    return [arm for arm in cell.arms if (arm.path, arm.label) in used]


def _few(splits: dict[tuple[str, str, str], Split]) -> Iterator[str]:
    """Pairings with too few discordant items, in one line."""
    few = [found for found in splits.values() if found.discordant < guards.FEW]
    if few:
        counted = "the one split" if len(splits) == 1 else f"{len(few)} of {len(splits)} splits"
        verb = "has" if len(few) == 1 else "have"
        yield f"{counted} {verb} fewer than {guards.FEW} discordant pairs, too few to say much"


def where_of(cell: Cell | None, place: Place) -> str:
    """A cell in words, or the place where it is missed."""
    if cell is None:
        return place.told
    return f"{task_of(cell)}, {agents_of(cell)} agents"


def place_facts(cell: Cell | None) -> dict[str, Any]:
    """What tells the panels of several cells apart, as columns of records."""
    if cell is None:
        return {}
    return {"task": task_of(cell), "model": model_of(cell), "agents": agents_of(cell), "items": size_of(cell)}


def title_of(title: str, cell: Cell | None) -> str:
    """A panel's title with its cell."""
    if cell is None:
        return f"{title} (no log of its cell)"
    facts = place_facts(cell)
    return f"{title} ({facts['task']}, {facts['agents']} agents, {facts['items']} items, {facts['model']})"
