"""Every figure that some logs can give, and a reason for each that they cannot."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bcrbench.errors import inert
from bcrbench.stats.cells import Cell
from bcrbench.stats.figures.base import Chart, Figure, NoData, Probe
from bcrbench.stats.figures.registry import all_figures


@dataclass(frozen=True)
class Drawing:
    """One chart of a figure, for one cell, set of cells or probe; `chart` is None where the logs do not hold it."""

    figure: Figure
    place: int  # among what the figure is made for, from 1
    of: int
    where: str  # the cell or probe in words
    chart: Chart | None
    why: str = ""  # the reason where there is no chart


def collect(
    cells: Sequence[Cell], probes: Sequence[Probe], most: int | None = None, names: Collection[str] | None = None
) -> Iterator[Drawing]:
    """Make every figure, or those named, for everything it is made for, or for the first `most` of each."""
    for figure in all_figures():
        if names is not None and figure.name not in names:
            continue
        subjects = _subjects(figure, cells, probes)
        if not subjects:
            yield Drawing(figure, 1, 1, "", None, "no log of a probe" if figure.per == "probe" else "no log of a run")
        for place, (where, subject) in enumerate(subjects[:most], 1):
            yield _drawing(figure, place, len(subjects), where, subject)


def _drawing(figure: Figure, place: int, of: int, where: str, subject: Any) -> Drawing:
    try:
        return Drawing(figure, place, of, where, figure.make(subject))
    except NoData as reason:
        return Drawing(figure, place, of, where, None, str(reason))


def _subjects(figure: Figure, cells: Sequence[Cell], probes: Sequence[Probe]) -> list[tuple[str, Any]]:
    if figure.per == "probe":
        return [(_probe(probe), probe) for probe in probes]
    if figure.per == "cell":
        return list(zip(cell_names(cells), cells, strict=True))
    groups: dict[bytes, list[Cell]] = {}
    for cell in cells:
        facts = {key: value for key, value in cell.facts.items() if key != "items"}
        groups.setdefault(msgspec.json.encode(facts, order="deterministic"), []).append(cell)
    firsts = [group[0] for group in groups.values()]
    return list(zip(cell_names(firsts), groups.values(), strict=True))


def cell_names(cells: Sequence[Cell]) -> list[str]:
    """The cells in a few words each, with what differs where these would be the same."""
    alike: dict[str, list[Cell]] = {}
    for cell in cells:
        alike.setdefault(_name(cell), []).append(cell)
    return [_name(cell) + _apart(cell, alike[_name(cell)]) for cell in cells]


def _apart(cell: Cell, others: Sequence[Cell]) -> str:
    keys = [key for key in cell.facts if any(other.facts.get(key) != cell.facts[key] for other in others)]
    return inert("".join(f", {key} {_short(cell.facts[key])}" for key in keys))


def _short(value: Any) -> str:
    return (" ".join(map(str, value)) if isinstance(value, list) else str(value))[:40]


def _name(cell: Cell) -> str:
    run = cell.arms[0].run
    model = run.model.get("spec") or run.model.get("id") or cell.facts.get("model")
    agents = cell.facts.get("agents")
    return inert(f"{run.task}, {model}" + (f", {agents} agents" if agents is not None else ""))


def _probe(probe: Probe) -> str:
    return inert(f"{probe.run.task}, {probe.run.model.get('spec')}, {probe.run.effective.get('segment_tokens')} tokens")
