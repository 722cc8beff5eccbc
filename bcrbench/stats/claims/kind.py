"""What a kind of claim is, and what a verdict on one says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec

from bcrbench.stats.cells import Cell
from bcrbench.stats.paper_tables.build import condensed

MOST, SHOWN = 4, 2  # comparisons that one line tells; of more, how many

Word = Literal["held", "not held", "not resolved at this n", "no log"]

HELD: Word = "held"
NOT_HELD: Word = "not held"
UNRESOLVED: Word = "not resolved at this n"
NO_LOG: Word = "no log"


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a claim holds; a task or a number that is not named is whatever the logs have."""

    task: str | list[str] | None = None
    agents: int | list[int] | None = None
    pinned: bool = False  # every worker in one role
    items: int | None = None  # preferred size of the item set, where a place has several
    symbols: int | None = None  # of CopyMachine's shared segment
    kernel: str | None = None


@dataclass(frozen=True)
class Finding:
    """What one set of items, or one run, says of a claim: a word, one phrase with its numbers, and the items."""

    word: Word
    told: str
    items: frozenset[str] = frozenset()


class Lack(NamedTuple):
    """What no log gives, and where."""

    what: str
    where: str


@dataclass
class Found:
    """What the logs say of a claim, place by place, and what they lack."""

    findings: list[Finding] = field(default_factory=list)
    lacks: list[Lack] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """A claim in words, what the logs make of it, the numbers behind that on one line, and the number of items."""

    claim: str
    kind: str
    verdict: Word
    evidence: str
    n: int

    @property
    def line(self) -> str:
        """The verdict on one line."""
        return f"{self.verdict}: {self.claim} ({self.evidence})"


@dataclass(frozen=True)
class Kind:
    """A kind of claim. `decide` gets the cells and checked parameters."""

    parameters: type[Place]
    decide: Callable[[Sequence[Cell], Any], Found]


def settle(found: Found) -> tuple[Word, str, int]:
    """One word for all places: every one must hold, one that does not is enough to refute, and none may be missing."""
    words = {finding.word for finding in found.findings}
    n = len(frozenset().union(*(finding.items for finding in found.findings)))
    lacks = [f"{what} ({where})" for what, where in gathered(found.lacks).items()]
    if found.lacks and NOT_HELD not in words:
        return NO_LOG, "; ".join([*lacks, *_told(found.findings, UNRESOLVED)]), n
    word = next((word for word in (NOT_HELD, UNRESOLVED, HELD) if word in words), NO_LOG)
    return word, "; ".join([*_told(found.findings, word), *lacks]), n


def gathered(lacks: Sequence[Lack]) -> dict[str, str]:
    """Where each thing is missed, in one phrase."""
    by_thing: dict[str, list[str]] = {}
    for what, where in lacks:
        by_thing.setdefault(what, []).append(where)
    return {what: condensed(dict.fromkeys(places)) for what, places in by_thing.items()}


def _told(findings: Sequence[Finding], word: Word) -> list[str]:
    """The findings; of many, how many there are of each word, and the first of the word that decides."""
    if len(findings) <= MOST:
        return list(dict.fromkeys(finding.told for finding in findings))
    counted = Counter(finding.word for finding in findings)
    deciding = [finding.told for finding in findings if finding.word == word] or [findings[0].told]
    count = ", ".join(f"{name} in {times}" for name, times in counted.items())
    return [f"{count} of {len(findings)} comparisons", *deciding[:SHOWN]]
