"""From a recipe and flags to the list of runs, in the order in which they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from bcrbench.errors import UserError, told
from bcrbench.settings import FILE, Settings, from_flags, from_folder, resolve
from bcrbench.sweep.axes import cells, chosen, conditions, settings_of, starts
from bcrbench.sweep.order import in_order
from bcrbench.sweep.plan import Plan, Shelf, plan
from bcrbench.sweep.recipe import PROFILES, Entry, entries

DEFAULT = ["dense", "kvcomm"]
FLAGS = "flags"


@dataclass(frozen=True)
class Probe:
    """A probe of the unit of choice to be made: its settings, and its options as written."""

    settings: Settings
    options: dict[str, Any]


@dataclass(frozen=True)
class Sweep:
    """What a sweep comes to: runs, then probes."""

    plans: list[Plan] = field(default_factory=list)
    probes: list[Probe] = field(default_factory=list)


def expand(
    name: str | None, typed: list[str], flags: dict[str, Any], axes: Mapping[str, str | None] | None = None,
    profile: str = PROFILES[0],
) -> list[Plan]:  # fmt: skip
    """The runs of `expand_all`."""
    return expand_all(name, typed, flags, axes, profile).plans


def expand_all(
    name: str | None, typed: list[str], flags: dict[str, Any], axes: Mapping[str, str | None] | None = None,
    profile: str = PROFILES[0],
) -> Sweep:  # fmt: skip
    """One plan a cell and condition, each once; typed conditions replace the recipe's, axes vary what is there.

    Conditions that others are compared with or matched to come first, and runs of one model stand together. A dry run
    of a recipe leaves data sets on the hub unread. Raises UserError before anything runs.
    """
    given_axes = chosen(axes or {})
    wanted = cells(_asked(_written(name, profile), typed, given_axes), given_axes)
    wanted = conditions(wanted, given_axes)
    shelf = Shelf(fetch=name is None or not flags.get("dry_run"))
    layers = _Layers(from_flags(flags), settings_of(given_axes))
    plans: list[Plan] = []
    probes: list[Probe] = []
    for entry in wanted:
        settings, given = layers.of(entry)
        if entry.probe is not None:
            probes.append(Probe(settings, entry.probe))
        else:
            plans += plan(settings, list(entry.conditions), given, shelf)
    return Sweep(in_order(_once(plans)), probes)


def _written(name: str | None, profile: str) -> list[Entry]:
    return [Entry(FLAGS, {})] if name is None else entries(name, profile)


def _asked(written: Sequence[Entry], typed: list[str], axes: Mapping[str, Sequence[str]]) -> list[Entry]:
    """The entries with the typed conditions in the place of theirs, and some where nobody named any."""
    if typed:
        made = [replace(entry, conditions=tuple(typed)) for entry in written if entry.probe is None]
        if not made:
            raise UserError(f"--conditions {told(typed[0])}: the recipe has a probe only, expected none")
        return made
    own = tuple(starts(axes) or DEFAULT)
    return [entry if _has_work(entry) else replace(entry, conditions=own) for entry in written]


def _has_work(entry: Entry) -> bool:
    return bool(entry.conditions) or entry.probe is not None


@dataclass(frozen=True)
class _Layers:
    """Where a run's settings come from: the folder's file, the recipe, flags."""

    flags: dict[str, Any]
    decided: dict[str, str]  # by a setting axis, and which

    def of(self, entry: Entry) -> tuple[Settings, dict[str, Any]]:
        """An entry's settings, and what was given for them."""
        self._refuse_clash(entry.settings)
        flags = dict(self.flags)
        if entry.probe is not None:  # its texts are made of many items
            flags.pop("limit", None)
        settings, given = resolve(
            [
                ("profile", {"out": f"runs/{entry.profile}"} if entry.profile else {}),  # which recipes share
                (FILE, from_folder()),
                (entry.recipe, entry.settings),
                ("flags", flags),
            ]
        )
        if entry.recipe == FLAGS:
            return settings, given
        return settings, given | {"recipe": entry.recipe} | ({"profile": entry.profile} if entry.profile else {})

    def _refuse_clash(self, cell: Mapping[str, Any]) -> None:
        """A flag that is said once for all cells cannot be an axis, too."""
        for key, axis in self.decided.items():
            if key in self.flags and self.flags[key] != cell[key]:
                option = f"--{key.replace('_', '-')}"
                value = told(self.flags[key])
                raise UserError(f"{option} {value}: --{axis} sets it to {cell[key]!r}, expected one of the two")


def _once(plans: Sequence[Plan]) -> list[Plan]:
    """Each run once: recipes may have cells in common."""
    seen: dict[tuple[bytes, str], Plan] = {}
    for one in plans:
        seen.setdefault((msgspec.json.encode(one.cell.settings), one.spec.text), one)
    return list(seen.values())
