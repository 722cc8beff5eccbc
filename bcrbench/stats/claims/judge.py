"""From claims as a recipe has them to verdicts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from bcrbench.errors import UserError, unknown
from bcrbench.stats.cells import Cell
from bcrbench.stats.claims import KINDS
from bcrbench.stats.claims.kind import Place, Verdict, settle

_FIELD = re.compile(r"unknown field `(.*)`")


class Claim(NamedTuple):
    """A claim as written, and the words by which a mistake in it is placed (a file, a line)."""

    text: str
    kind: str
    parameters: Mapping[str, Any]
    place: str = "claim"


def check(claim: Claim) -> Place:
    """A claim's parameters, checked. Raises UserError with the nearest key for an unknown one and for a wrong value."""
    kind = KINDS.get(claim.kind)
    try:
        return msgspec.convert(dict(claim.parameters), kind.parameters)
    except msgspec.ValidationError as error:
        field = _FIELD.search(str(error))
        if field is not None:
            known = kind.parameters.__struct_fields__
            raise unknown(f"parameter of a claim {claim.kind!r} in {claim.place}", field[1], known) from error
        raise UserError(f"{claim.place}: claim {claim.kind!r}: {_reason(str(error))}") from error


def _reason(told: str) -> str:
    reason, _, where = told.partition(" - at `$.")
    reason = reason[:1].lower() + reason[1:]
    return f"{where.rstrip('`')}: {reason}" if where else reason


def judge(claims: Sequence[Claim], cells: Sequence[Cell]) -> list[Verdict]:
    """A verdict a claim, in their order. Raises UserError as `check` does, before anything is decided."""
    checked = [(claim, check(claim)) for claim in claims]
    return [_verdict(claim, asked, cells) for claim, asked in checked]


def _verdict(claim: Claim, asked: Place, cells: Sequence[Cell]) -> Verdict:
    word, told, n = settle(KINDS.get(claim.kind).decide(cells, asked))
    return Verdict(claim.text.rstrip("."), claim.kind, word, told, n)
