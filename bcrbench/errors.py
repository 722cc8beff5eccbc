"""Errors that a person can mend: shown as one line, without a traceback."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A mistake in what was typed or in a file that was given; the command line exits with 2."""


class RunFailed(Exception):
    """A run that started and could not go on (out of memory, replay mismatch); exits with 1, log resumable."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """Build the error for an unknown name: the thing, the value, the nearest match, the known ones."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return UserError(f"unknown {kind} {name!r}{hint}; known: {', '.join(names)}")
