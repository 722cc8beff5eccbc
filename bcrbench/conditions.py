"""Condition strings: what a person types, what logs keep, what tables print. The one registry of conditions.

`name` or `name:key=value,key=value`. A condition names a policy; its parameters are the policy's fields.
Canonical strings give parameters in the policy's order and leave out defaults, except those a reader always wants.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from bcrbench.errors import UserError, unknown
from bcrbench.registry import Registry
from bcrbench.reuse.policies import POLICIES, Policy


@dataclass(frozen=True)
class Condition:
    """A known condition: its policy, what a person may set, what is always printed, and where it comes from."""

    name: str
    summary: str
    source: str
    settable: tuple[str, ...]
    shown: tuple[str, ...] = ()


CONDITIONS: Registry[Condition] = Registry(
    "condition",
    {
        "dense": Condition(
            "dense", "every call is a full prefill; tokens=merged keeps the reuse path's ids", "section 4.1, 4.3",
            ("tokens",),
        ),
        "kvcomm": Condition(
            "kvcomm", "KVComm as released: gate, anchors, whole-call fallback", "section 3, Eq. 1-2",
            ("gamma", "frame", "base", "capacity", "window"), ("gamma",),
        ),
    },
)

_BOUNDS: dict[str, tuple[float, float]] = {"gamma": (0.0, 1.0), "capacity": (2, 10_000), "window": (1, 10_000)}


@dataclass(frozen=True)
class Spec:
    """A parsed condition: its canonical string and its policy."""

    text: str
    policy: Policy


def parse(text: str) -> Spec:
    """Read a condition string. Raises UserError naming the part, its value, what is expected and the nearest match."""
    name, _, tail = text.strip().partition(":")
    condition = CONDITIONS.get(name)
    policy_class = POLICIES.get(name)
    given = dict(_pair(condition, part) for part in tail.split(",")) if tail else {}
    hints = get_type_hints(policy_class)
    values = {key: _value(condition, key, raw, hints[key]) for key, raw in given.items()}
    policy = policy_class(**values)
    _check_together(condition, policy)
    return Spec(canonical(condition, policy), policy)


def canonical(condition: Condition, policy: Policy) -> str:
    """The string that logs and tables use; parsing it gives the same policy."""
    parts = []
    for spot in fields(policy):
        value = getattr(policy, spot.name)
        default = spot.default if spot.default is not MISSING else None
        if spot.name in condition.settable and (spot.name in condition.shown or value != default):
            parts.append(f"{spot.name}={value}")
    return condition.name + (":" + ",".join(parts) if parts else "")


def _pair(condition: Condition, part: str) -> tuple[str, str]:
    key, equals, value = part.partition("=")
    if not equals or not value:
        raise UserError(f"condition {condition.name!r}: {part!r}, expected key=value")
    if key not in condition.settable:
        raise unknown(f"parameter of condition {condition.name!r}", key, condition.settable)
    return key, value


def _value(condition: Condition, key: str, raw: str, kind: Any) -> Any:
    where = f"condition {condition.name!r}: {key}={raw}"
    if get_origin(kind) is Literal:
        if raw not in get_args(kind):
            raise UserError(f"{where}: expected one of {', '.join(get_args(kind))}")
        return raw
    try:
        value = kind(raw)
    except ValueError as error:
        raise UserError(f"{where}: expected {'an integer' if kind is int else 'a number'}") from error
    low, high = _BOUNDS[key]
    if not low <= value <= high:
        raise UserError(f"{where}: expected {low} to {high}")
    return value


def _check_together(condition: Condition, policy: Policy) -> None:
    capacity, window = getattr(policy, "capacity", None), getattr(policy, "window", None)
    # A wider window could evict an anchor before all its consumers have added to it (kvcomm.md 2.8).
    if capacity is not None and window is not None and window > capacity:
        raise UserError(f"condition {condition.name!r}: window={window}: expected at most capacity={capacity}")
