"""Condition strings: what a person types, what logs keep, what tables print.

`name` or `name:key=value,key=value`. The name is a policy's, the keys are its settings (reuse/policies/base.py).
Canonical strings give settings in the policy's order and leave out defaults, except those a reader always wants.
"""

from __future__ import annotations

import re
from dataclasses import Field, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from bcrbench.errors import UserError, unknown
from bcrbench.reuse.policies import POLICIES, Policy
from bcrbench.settings import check_text


@dataclass(frozen=True)
class Spec:
    """A parsed condition: its canonical string and its policy."""

    text: str
    policy: Policy


def parse(text: str) -> Spec:
    """Read a condition string. Raises UserError naming the part, its value, what is expected and the nearest match."""
    check_text("condition", text)
    name, _, tail = text.strip().partition(":")
    kind = POLICIES.get(name)
    policy = _checked(name, kind(**_values(name, kind, tail)))
    return Spec(canonical(name, policy), policy)


def _values(name: str, kind: type[Policy], tail: str) -> dict[str, Any]:
    """The parameters that a condition string sets, each within its own bounds."""
    known = {spot.name: spot for spot in settings(kind)}
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for part in _parts(tail, {key for key, hint in hints.items() if hint is str}):
        key, value = _pair(name, part.strip(), known)
        if key in values:
            raise UserError(f"condition {name!r}: {key} is given twice, expected once")
        values[key] = _value(f"condition {name!r}: {key}={value}", value, hints[key], known[key])
    return values


def _checked(name: str, policy: Policy) -> Policy:
    wrong = policy.check()
    if wrong:
        raise UserError(f"condition {name!r}: {wrong}")
    return policy


def has(text: str, parameter: str) -> bool:
    """Whether a condition's policy has a parameter. Raises UserError for an unknown policy."""
    return parameter in {spot.name for spot in settings(POLICIES.get(text.strip().partition(":")[0]))}


def with_value(text: str, parameter: str, value: str) -> str:
    """The canonical string of a condition with one parameter set anew. Raises UserError as `parse` does."""
    name, policy = text.strip().partition(":")[0], parse(text).policy
    changed = replace(policy, **_values(name, type(policy), f"{parameter}={value}"))
    return canonical(name, _checked(name, changed))


_LAYERED = "bcr-"


def layout_of(text: str) -> str | None:
    """The layout in the name of one of BCR's conditions; None for any other."""
    name = text.strip().partition(":")[0]
    return name.removeprefix(_LAYERED) if name.startswith(_LAYERED) else None


def with_layout(text: str, layout: str) -> str:
    """The canonical string of a BCR condition in another layout, with the parameters that both have.

    Raises UserError for an unknown layout, and as `parse` does.
    """
    name, before = f"{_LAYERED}{layout}", parse(text).policy
    known = [found.removeprefix(_LAYERED) for found in POLICIES.names() if found.startswith(_LAYERED)]
    if layout not in known:
        raise unknown("layout", layout, known)
    kind = POLICIES.get(name)
    shared = {spot.name for spot in settings(kind)} & {spot.name for spot in settings(before)}
    return canonical(name, kind(**{key: getattr(before, key) for key in shared}))


def _parts(tail: str, texts: set[str]) -> list[str]:
    """The key=value parts; a text that ends in the name of a log keeps the commas in that name."""
    parts = re.split(r",(?=\s*\w+=)|,$", tail) if tail else []
    joined: list[str] = []
    while parts:
        longest = 1
        if parts[0].partition("=")[0].strip() in texts:
            named = [count for count in range(2, len(parts) + 1) if _ends_in_file(",".join(parts[:count]))]
            longest = max(named, default=1)
        joined.append(",".join(parts[:longest]))
        parts = parts[longest:]
    return joined


def _ends_in_file(text: str) -> bool:
    try:
        return Path(text.partition(":")[2]).is_file()
    except (OSError, ValueError):
        return False


def settings(policy: type[Policy] | Policy) -> list[Field[Any]]:
    """The fields that a condition string may set."""
    return [spot for spot in fields(policy) if spot.metadata.get("setting")]


def canonical(name: str, policy: Policy) -> str:
    """The string that logs and tables use; parsing it gives the same policy."""
    parts = [
        f"{spot.name}={getattr(policy, spot.name)}"
        for spot in settings(policy)
        if spot.metadata["shown"] or getattr(policy, spot.name) != spot.default
    ]
    return name + (":" + ",".join(parts) if parts else "")


def _pair(name: str, part: str, known: dict[str, Any]) -> tuple[str, str]:
    key, equals, value = part.partition("=")
    if not equals or not value:
        raise UserError(f"condition {name!r}: {part!r}, expected key=value")
    if key not in known:
        raise unknown(f"parameter of condition {name!r}", key, known)
    return key, value


def _value(where: str, raw: str, kind: Any, spot: Field[Any]) -> Any:
    if get_origin(kind) is Literal:
        if raw not in get_args(kind):
            raise UserError(f"{where}: expected one of {', '.join(get_args(kind))}")
        return raw
    if kind is str:
        return raw
    try:
        value = kind(raw)
    except ValueError as error:
        raise UserError(f"{where}: expected {'an integer' if kind is int else 'a number'}") from error
    low, high = spot.metadata["low"], spot.metadata["high"]
    if not low <= value <= high:  # nor is NaN
        raise UserError(f"{where}: expected {low} to {high}")
    return value
