"""A sweep's axes: flags that take several values, each of which is a cell or a condition.

One line in AXES makes one flag of `bcrbench sweep`. A setting axis makes a cell of every value, in the place of what a
recipe's cells say about the same settings. A condition axis varies one parameter of every condition that has it, in the
place of the value that is written there. Values are checked where they arrive: by the settings, the task, the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bcrbench.errors import UserError, told


@dataclass(frozen=True)
class SettingAxis:
    """Every value is a cell with these settings."""

    help: str
    metavar: str
    cell: Callable[[str], dict[str, Any]]


@dataclass(frozen=True)
class ConditionAxis:
    """Every value is one more of each condition with the parameter; `start` are the conditions when none are named."""

    help: str
    metavar: str
    parameter: str
    start: tuple[str, ...]


Axis = SettingAxis | ConditionAxis

AXES: dict[str, Axis] = {
    "symbols": SettingAxis(
        "CopyMachine with questions of so many symbols, one cell each.",
        "S,S",
        lambda value: {"task": "copymachine", "data": f"symbols={value}"},
    ),
    "gamma": ConditionAxis(
        "Gate thresholds; on its own, Dense and KVComm at each.", "G,G", "gamma", ("dense", "kvcomm")
    ),
    "rho": ConditionAxis(
        "Shares of rows to repair; on its own, KVComm and BCR-chunk at each.", "R,R", "rho", ("kvcomm", "bcr-chunk")
    ),
}


def chosen(typed: Mapping[str, str | None]) -> dict[str, list[str]]:
    """The axes that were given, with their values, each once."""
    return {
        name: list(dict.fromkeys(map(str.strip, text.split(",")))) for name, text in typed.items() if text is not None
    }


def cells(base: Sequence[dict[str, Any]], axes: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """A recipe's cells without what the setting axes vary, crossed with the axes' values, each once."""
    made = list(base)
    for name, values in axes.items():
        axis = AXES[name]
        if isinstance(axis, SettingAxis):
            varied = [axis.cell(value) for value in values]
            rest = _each_once([{key: cell[key] for key in cell if key not in varied[0]} for cell in made])
            made = [{**cell, **own} for cell in rest for own in varied]
    return made


def settings_of(axes: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The settings that setting axes decide, and the axis that does."""
    found: dict[str, str] = {}
    for name, values in axes.items():
        axis = AXES[name]
        if isinstance(axis, SettingAxis):
            found |= dict.fromkeys(axis.cell(values[0]), name)
    return found


def conditions(base: Sequence[str], axes: Mapping[str, Sequence[str]]) -> list[str]:
    """The conditions with each condition axis in its place; without any, the axes' own.

    Raises UserError when no condition has an axis' parameter, or a value is none of the parameter's.
    """
    own = {name: axis for name, axis in AXES.items() if name in axes and isinstance(axis, ConditionAxis)}
    made = list(base) or list(dict.fromkeys(start for axis in own.values() for start in axis.start))
    for name, axis in own.items():
        made = _varied(made, name, axis.parameter, axes[name])
    return made


def _varied(base: list[str], name: str, parameter: str, values: Sequence[str]) -> list[str]:
    from bcrbench.conditions import has, with_value

    if not any(has(text, parameter) for text in base):
        raise UserError(f"--{name} {told(','.join(values))}: no condition of {', '.join(base)} has {parameter}")
    made = [
        varied
        for text in base
        for varied in ([with_value(text, parameter, value) for value in values] if has(text, parameter) else [text])
    ]
    return list(dict.fromkeys(made))


def _each_once(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for cell in found:
        if cell not in kept:
            kept.append(cell)
    return kept
