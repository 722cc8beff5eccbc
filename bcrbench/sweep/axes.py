"""A sweep's axes: flags that take several values, each of which is a cell or a condition.

One line in AXES makes one flag of `bcrbench sweep`. A setting axis makes a cell of every value, in the place of what a
recipe's cells say about the same settings. A condition axis varies every condition that can be varied so, in the place
of what is written there. Values are checked where they arrive: by the settings, the task, the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bcrbench.errors import UserError, told
from bcrbench.sweep.recipe import Entry


@dataclass(frozen=True)
class SettingAxis:
    """Every value is a cell with these settings."""

    help: str
    metavar: str
    cell: Callable[[str], dict[str, Any]]


@dataclass(frozen=True)
class ConditionAxis:
    """Every value is one more of each condition that has the parameter; `layout` is the one in bcr's names.

    `start` are the conditions when none are named.
    """

    help: str
    metavar: str
    parameter: str
    start: tuple[str, ...]


Axis = SettingAxis | ConditionAxis


def _whole(axis: str, key: str) -> Callable[[str], dict[str, Any]]:
    """The setting of a value that is a whole number; its bounds are the setting's own."""

    def cell(value: str) -> dict[str, Any]:
        if not value.isascii() or not value.isdigit():
            raise UserError(f"--{axis} {told(value)}: expected whole numbers, such as 2,3")
        return {key: int(value)}

    return cell


_BOTH = ("dense", "kvcomm")
_LAYOUT = "layout"

AXES: dict[str, Axis] = {
    "agents": SettingAxis("Workers, 1 to 5, one cell each.  [default: 3]", "N,N", _whole("agents", "agents")),
    "topology": SettingAxis(
        "full, chain, star or layered, one cell each.  [default: full]", "NAME,NAME", lambda value: {"topology": value}
    ),
    "order": SettingAxis(
        "Orders of the items, task or shuffle:SEED, one cell each.  [default: task]",
        "NAME,NAME",
        lambda value: {"order": value},
    ),
    "seeds": SettingAxis("Seeds of the run's random streams, one cell each.", "N,N", _whole("seeds", "seed")),
    "symbols": SettingAxis(
        "CopyMachine with questions of so many symbols, one cell each.",
        "S,S",
        lambda value: {"task": "copymachine", "data": f"symbols={value}"},
    ),
    "gamma": ConditionAxis("Gate thresholds; on its own, Dense and KVComm at each.", "G,G", "gamma", _BOTH),
    "rho": ConditionAxis(
        "Shares of rows to repair; on its own, KVComm and BCR-chunk at each.", "R,R", "rho", ("kvcomm", "bcr-chunk")
    ),
    "layout": ConditionAxis("BCR's layouts: chunk, grow, single.", "NAME,NAME", _LAYOUT, (*_BOTH, "bcr-chunk")),
    "select": ConditionAxis("What chooses rows: draft, coin, ...", "NAME,NAME", "select", (*_BOTH, "bcr-chunk")),
    "chunk": ConditionAxis("Rows a chunk, B of BCR-chunk.", "N,N", "B", (*_BOTH, "bcr-chunk")),
    "cap": ConditionAxis("Longest spans of BCR-grow.", "N,N", "cap", (*_BOTH, "bcr-grow")),
    "tau": ConditionAxis("Shares of a seed's score that a span grows on.", "T,T", "tau", (*_BOTH, "bcr-grow")),
    "k": ConditionAxis("Draft tokens, 1 to 8.", "K,K", "k", (*_BOTH, "bcr-chunk")),
    "theta": ConditionAxis("Confidences that OpenGate asks for.", "T,T", "theta", (*_BOTH, "opengate")),
    "capacity": ConditionAxis("Anchors that a pool keeps.", "N,N", "capacity", _BOTH),
    "window": ConditionAxis("Oldest anchors among which one is evicted.", "N,N", "window", _BOTH),
    "warm": ConditionAxis("Other items that fill the pool before the first one.", "N,N", "warm", _BOTH),
    "shrink": ConditionAxis(
        "Parts of a repair's budget that a full pool takes away.", "S,S", "shrink", (*_BOTH, "bcr-chunk")
    ),
}


def chosen(typed: Mapping[str, str | None]) -> dict[str, list[str]]:
    """The axes that were given, with their values, each once. Raises UserError for an empty value."""
    return {name: _values(name, text) for name, text in typed.items() if text is not None}


def _values(name: str, text: str) -> list[str]:
    values = list(dict.fromkeys(map(str.strip, text.split(","))))
    if "" in values:
        raise UserError(f"--{name} {told(text)}: an empty value, expected {AXES[name].metavar}")
    return values


def cells(base: Sequence[Entry], axes: Mapping[str, Sequence[str]]) -> list[Entry]:
    """Entries without what the setting axes vary, crossed with the axes' values, each once."""
    made = list(base)
    for name, values in axes.items():
        axis = AXES[name]
        if isinstance(axis, SettingAxis):
            varied = [axis.cell(value) for value in values]
            rest = _each_once([_without(entry, varied[0]) for entry in made])
            made = [replace(entry, settings={**entry.settings, **own}) for entry in rest for own in varied]
    return made


def settings_of(axes: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The settings that setting axes decide, and the axis that does."""
    found: dict[str, str] = {}
    for name, values in axes.items():
        axis = AXES[name]
        if isinstance(axis, SettingAxis):
            found |= dict.fromkeys(axis.cell(values[0]), name)
    return found


def starts(axes: Mapping[str, Sequence[str]]) -> list[str]:
    """The conditions of the condition axes where nobody names any."""
    own = [AXES[name] for name in axes]
    return list(dict.fromkeys(text for axis in own if isinstance(axis, ConditionAxis) for text in axis.start))


def conditions(base: Sequence[Entry], axes: Mapping[str, Sequence[str]]) -> list[Entry]:
    """The entries with each condition axis applied.

    Raises UserError when no condition of any entry can be varied so, or a value is none of the parameter's.
    """
    made = list(base)
    for name, values in axes.items():
        axis = AXES[name]
        if isinstance(axis, ConditionAxis):
            texts = dict.fromkeys(text for entry in made for text in entry.conditions)
            if not any(_varies(text, axis.parameter) for text in texts):
                named = f"no condition of {', '.join(texts)} has {axis.parameter}" if texts else "no condition is there"
                raise UserError(f"--{name} {told(','.join(values))}: {named}")
            made = [replace(entry, conditions=_varied(entry, axis.parameter, values)) for entry in made]
    return made


def _varied(entry: Entry, parameter: str, values: Sequence[str]) -> tuple[str, ...]:
    made = [
        varied
        for text in entry.conditions
        for varied in ([_with(text, parameter, value) for value in values] if _varies(text, parameter) else [text])
    ]
    return tuple(dict.fromkeys(made))


def _varies(text: str, parameter: str) -> bool:
    """Whether a condition, or the one that it is matched to, has a parameter."""
    return any(_has(one, parameter) for one in (text, _matched_to(text)) if one is not None)


def _with(text: str, parameter: str, value: str) -> str:
    """A condition with the parameter set anew, also in what it is matched to: that run is made with the same value."""
    from bcrbench.conditions import with_value

    named = _matched_to(text)
    made = _set(text, parameter, value) if _has(text, parameter) else text
    if named is None or not _has(named, parameter):
        return made
    return with_value(made, "match", f"reuse:{_set(named, parameter, value).replace(',', '+')}")


def _matched_to(text: str) -> str | None:
    """The condition that a condition's `match` names."""
    from bcrbench.conditions import parse
    from bcrbench.runs.matching import condition_in

    return condition_in(str(getattr(parse(text).policy, "match", "")))


def _has(text: str, parameter: str) -> bool:
    from bcrbench.conditions import has, layout_of

    return layout_of(text) is not None if parameter == _LAYOUT else has(text, parameter)


def _set(text: str, parameter: str, value: str) -> str:
    from bcrbench.conditions import with_layout, with_value

    return with_layout(text, value) if parameter == _LAYOUT else with_value(text, parameter, value)


def _without(entry: Entry, varied: Mapping[str, Any]) -> Entry:
    return replace(entry, settings={key: value for key, value in entry.settings.items() if key not in varied})


def _each_once(found: list[Entry]) -> list[Entry]:
    kept: list[Entry] = []
    for entry in found:
        if entry not in kept:
            kept.append(entry)
    return kept
