"""How a recomputed value compares with what the paper prints: rounded as Python's `format` does, to as many digits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class OneOf:
    """Values of which the paper's counts do not choose one: any may be the printed one."""

    values: tuple[float, ...]


@dataclass(frozen=True)
class Range:
    """What rounded inputs still allow: anything between the two bounds."""

    low: float
    high: float


Value = float | bool | OneOf | Range


def agrees(values: Sequence[Value], printed: Sequence[str]) -> bool:
    """Whether each value prints as its token; a single token speaks for every value.

    Tokens are numbers, bounds ("<6", ">0.05") and words, which stand for a claim that holds or not.
    """
    tokens = list(printed) * len(values) if len(printed) == 1 else list(printed)
    return len(tokens) == len(values) > 0 and all(map(_prints_as, values, tokens))


def _prints_as(value: Value, token: str) -> bool:
    if isinstance(value, bool):
        return value and not _is_number(token)
    if isinstance(value, OneOf):
        return any(_prints_as(one, token) for one in value.values)
    if isinstance(value, Range):
        half = 0.5 * 10.0 ** -_digits(token)
        return value.low <= float(token) + half and float(token) - half <= value.high
    if token[0] in "<>":
        return value < float(token[1:]) if token[0] == "<" else value > float(token[1:])
    return _is_number(token) and _rounded(value, _digits(token)) == token


def show(values: Sequence[Value], printed: Sequence[str]) -> str:
    """The values as a reader may compare them: to the printed digits where they agree, to more where they do not."""
    spare = 0 if agrees(values, printed) else 2
    tokens = list(printed) * len(values) if len(printed) == 1 else list(printed)
    return ", ".join(_shown(value, token, spare) for value, token in zip(values, tokens))


def _shown(value: Value, token: str, spare: int) -> str:
    if isinstance(value, bool):
        return token if value else f"not {token}"
    if isinstance(value, OneOf):
        fitting = [one for one in value.values if _prints_as(one, token)]
        return " or ".join(_shown(one, token, spare) for one in fitting or value.values)
    if isinstance(value, Range):
        return f"{_shown(value.low, token, 1)} to {_shown(value.high, token, 1)}"
    if not _is_number(token):
        return f"{value:.3g}"
    return _rounded(value, _digits(token) + spare)


def _rounded(value: float, digits: int) -> str:
    return format(0.0 if abs(value) < 1e-9 else value, f".{digits}f")  # no "-0.0"


def _digits(token: str) -> int:
    return len(token.partition(".")[2])


def _is_number(token: str) -> bool:
    return token.lstrip("-").replace(".", "", 1).isdigit()
