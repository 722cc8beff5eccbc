"""Conditions that are matched to another run of their cell: `reuse:CONDITION`, with `+` for its commas."""

from __future__ import annotations

from bcrbench.errors import UserError
from bcrbench.runs.matching import condition_in


def named_run(match: str) -> str | None:
    """The canonical string of the condition that a `match` names; None when it names none."""
    from bcrbench.conditions import parse  # which knows all policies

    text = condition_in(match)
    return None if text is None else parse(text).text


def wrong_run(match: str) -> str | None:
    """Why a `match` names no run that can be read, or None."""
    try:
        found = named_run(match)
    except UserError as error:
        return str(error)
    if found is None:
        return "no condition"
    return "itself matched to another" if "match=reuse:" in found else None
