"""Errors that a person can mend: shown as one line, without a traceback."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A mistake in what was typed or in a file that was given; the command line exits with 2."""


class RunRefused(UserError):
    """A mistake in what one run finds: its log, or what it is matched to. A sweep goes on with the others."""


class RunFailed(Exception):
    """A run that started and could not go on (out of memory, replay mismatch); exits with 1, log resumable."""


def told(value: object, longest: int = 80) -> str:
    """A value in an error's line: as Python writes it, cut where it is long."""
    short = reprlib.Repr()  # stops inside a value that is larger than memory once written out
    short.maxlevel, short.maxstring, short.maxother = 3, longest, longest
    text = short.repr(value)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def inert(text: str) -> str:
    """Text as a terminal may show it on one line: what would move a cursor, colour or reorder is written as escapes.

    Names, ids and reasons come from files that others made.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """Build the error for an unknown name: the thing, the value, the nearest match, the known ones."""
    names = sorted(known)
    near = get_close_matches(name[:200], names, n=1, cutoff=0.5)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return UserError(f"unknown {kind} {told(name)}{hint}; known: {', '.join(names)}")
