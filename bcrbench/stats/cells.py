"""Which logs belong together, and which of them is the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from bcrbench.errors import UserError, unknown
from bcrbench.stats import guards
from bcrbench.stats.arms import Arm

DEFAULT_REFERENCE = "dense"


@dataclass
class Cell:
    """Conditions that share task, model, agents, topology, roles and items; one arm a condition."""

    facts: dict[str, Any]  # the run records' `cell`
    arms: list[Arm]
    reference: Arm | None = None
    unpaired: list[Arm] = field(default_factory=list)  # a run that did not finish has other items than the reference

    def reference_of(self, arm: Arm) -> Arm | None:
        """What the arm is compared with; None for the reference itself and where nothing may be paired."""
        alone = arm is self.reference or any(arm is other for other in self.unpaired)
        return None if alone else self.reference


def make_cells(arms: Sequence[Arm], vs: str | None, intersect: bool = False) -> tuple[list[Cell], list[str]]:
    """Group the arms, find each group's reference, check every pairing; returns the cells and what a reader must know.

    `vs` names the reference by its condition or the beginning of one; without it, `dense` is the reference where a
    cell has it. Raises UserError for a condition that no log has, for two different runs of one condition, and for a
    pairing that must not be made.
    """
    cells, notes = group_arms(arms, intersect)
    wanted = resolve(vs, [arm.condition for arm in arms]) if vs is not None else DEFAULT_REFERENCE
    for cell in cells:
        _settle(cell, wanted, intersect, notes)
        # Whatever order a shell gave the files in: the reference first, then by name.
        cell.arms.sort(key=lambda arm: (arm is not cell.reference, arm.condition, _seed_order(arm)))
    for cell in cells:
        _explain_missing(cell, cells, wanted, vs is not None, notes)
    return cells, notes


def group_arms(arms: Sequence[Arm], intersect: bool = False) -> tuple[list[Cell], list[str]]:
    """Arms by cell, nothing paired yet, and what a reader must know.

    Several seeds or kernels of one condition are several arms. Raises UserError for two runs that differ in more.
    """
    notes: list[str] = []
    groups: dict[bytes, list[Arm]] = {}
    for arm in arms:
        groups.setdefault(cell_key(arm, intersect), []).append(arm)
    return [Cell(group[0].run.cell, _once(group, notes)) for group in groups.values()], notes


def cell_key(arm: Arm, intersect: bool) -> bytes:
    """What arms of one cell have in common."""
    facts = {key: value for key, value in arm.run.cell.items() if not (intersect and key == "items")}
    return msgspec.json.encode(facts, order="deterministic")


def resolve(vs: str, conditions: Sequence[str]) -> str:
    """The one condition that `vs` means: itself, or the only one that begins so, at a parameter's end if possible.

    Raises UserError when none does, with the nearest match, or when several do.
    """
    known = sorted(set(conditions))
    begun = [name for name in known if name.startswith(vs)]
    ended = [name for name in begun if name[len(vs) :][:1] in ("", ":", ",")]
    for found in ([name for name in begun if name == vs], ended, begun):
        if len(found) == 1:
            return found[0]
    if not begun:
        raise unknown("condition for --vs", vs, known)
    raise UserError(f"--vs {vs!r}: begins {len(begun)} conditions ({', '.join(begun)}), expected one")


def _once(group: list[Arm], notes: list[str]) -> list[Arm]:
    kept: dict[tuple[str, ...], Arm] = {}
    for arm in _named(group):
        place = (arm.condition, str(arm.seed), str(arm.kernel))
        first = kept.setdefault(place, arm)
        if first is not arm:
            kept[place] = _fuller(first, arm, notes)
    return list(kept.values())


def _named(group: list[Arm]) -> list[Arm]:
    """The arms, those of one condition told apart by seed or kernel where they differ in it."""
    seeds: dict[str, set[str]] = {}
    kernels: dict[str, set[str]] = {}
    for arm in group:
        seeds.setdefault(arm.condition, set()).add(_seed(arm))
        kernels.setdefault(arm.condition, set()).add(_kernel(arm))
    return [
        replace(
            arm,
            seed=_seed(arm) if len(seeds[arm.condition]) > 1 else None,
            kernel=_kernel(arm) if len(kernels[arm.condition]) > 1 else None,
        )
        for arm in group
    ]


def _kernel(arm: Arm) -> str:
    return str(arm.run.model.get("kernel"))


def _seed(arm: Arm) -> str:
    """A run's seeds in words; just the number where there is one."""
    seeds = arm.run.seeds
    return str(*seeds.values()) if len(seeds) == 1 else " ".join(f"{key}={value}" for key, value in seeds.items())


def _seed_order(arm: Arm) -> tuple[int, str, str]:
    seed = arm.seed or ""
    return (int(seed) if seed.isdigit() else 0, seed, arm.kernel or "")


def _fuller(first: Arm, second: Arm, notes: list[str]) -> Arm:
    """The more complete of two logs of one run; raises UserError when they are not the same run."""
    if first.run.fingerprint != second.run.fingerprint:
        raise UserError(
            f"{second.path}: {second.condition!r} is in {first.path} too, with another fingerprint "
            f"({_difference(first, second)}), expected each condition, seed and kernel once in a cell"
        )
    kept, other = (second, first) if len(second.items) > len(first.items) else (first, second)
    outcomes = dict(zip(other.ids, other.outcomes, strict=True))
    differ = sum(outcomes.get(item.id, out) != out for item, out in zip(kept.items, kept.outcomes, strict=True))
    notes.append(
        f"{other.path} repeats {kept.path} ({kept.condition}, the same fingerprint): only the latter is counted; "
        f"their outcomes differ on {differ} items"
    )
    return kept


def _difference(first: Arm, second: Arm) -> str:
    for part in ("resolved", "effective", "model", "items", "prompts", "grader", "packages", "code", "device"):
        one, two = getattr(first.run, part), getattr(second.run, part)
        for key in sorted({*one, *two}):
            if one.get(key) != two.get(key):
                return f"{part}.{key}: {two.get(key)!r} and {one.get(key)!r}"
    return f"{second.run.fingerprint} and {first.run.fingerprint}"


def _settle(cell: Cell, wanted: str, intersect: bool, notes: list[str]) -> None:
    """Find the cell's reference, put it first, check it against every other arm, and take common items if asked."""
    fitting = sorted((arm for arm in cell.arms if arm.condition == wanted), key=_seed_order)
    if not fitting:
        return
    cell.reference = fitting[0]
    others = [arm for arm in cell.arms if arm is not cell.reference]
    for arm in others:
        cut = None if intersect else guards.cut_short_note(cell.reference, arm)
        guards.check_pair(cell.reference, arm, intersect or cut is not None)
        if cut is not None:
            cell.unpaired.append(arm)
            notes.append(cut)
    cell.arms = [cell.reference, *others]
    if intersect and others:
        shared = guards.common_ids(cell.arms)
        notes.extend(guards.intersection_notes(cell.arms, shared))
        cell.arms = [arm.only(shared) for arm in cell.arms]
        cell.reference = cell.arms[0]


def _explain_missing(cell: Cell, cells: Sequence[Cell], wanted: str, asked: bool, notes: list[str]) -> None:
    """A cell without the reference that others have: refuse when it was asked for or only the items differ."""
    if cell.reference is not None or not any(other.reference for other in cells):
        return
    by_distance = sorted(
        (other for other in cells if other.reference), key=lambda other: len(_unequal(cell.facts, other.facts))
    )
    nearest = by_distance[0]
    fields = _unequal(cell.facts, nearest.facts)
    if fields == ["items"]:
        assert nearest.reference is not None
        guards.check_pair(nearest.reference, cell.arms[0])
    field = fields[0]
    told = (
        f"cell.{field} is {cell.facts.get(field)!r}, {wanted} ({nearest.arms[0].path}) has {nearest.facts.get(field)!r}"
    )
    if asked:
        raise UserError(f"{cell.arms[0].path}: {cell.arms[0].condition!r} cannot be paired with {wanted!r}: {told}")
    notes.append(f"{cell.arms[0].path}: no {wanted} log in this cell, so nothing is paired ({told})")


def _unequal(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
    return [key for key in dict.fromkeys((*one, *two)) if one.get(key) != two.get(key)]
