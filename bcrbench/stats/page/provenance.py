"""Where each run's numbers come from: model, hashes, versions, seeds and commit, what all runs share said once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bcrbench.runs.log import ItemOutcome, Log
from bcrbench.stats.arms import Arm

_PARTS = (
    "task", "model", "tokenizer", "items", "prompts", "grader", "seeds", "effective", "code", "packages", "device",
    "host", "stateful", "schema_version",
)  # fmt: skip
_OWN = ("fingerprint", "started")


@dataclass(frozen=True)
class Run:
    """One run's own facts, by dotted name."""

    condition: str
    file: str
    facts: dict[str, str]


@dataclass(frozen=True)
class Provenance:
    """What all runs share, and what each has of its own."""

    shared: dict[str, str]
    runs: list[Run]


def provenance(arms: Sequence[Arm]) -> Provenance:
    """The facts of some runs' first records."""
    found = [dict(_facts(arm.log)) for arm in arms]
    shared = {name: value for name, value in found[0].items() if all(facts.get(name) == value for facts in found)}
    if len(arms) == 1:
        shared = {name: value for name, value in shared.items() if name not in (*_OWN, "status")}
    runs = [
        Run(arm.label, arm.path.name, {name: value for name, value in facts.items() if name not in shared})
        for arm, facts in zip(arms, found, strict=True)
    ]
    return Provenance(shared, runs)


def _facts(log: Log[ItemOutcome]) -> Iterator[tuple[str, str]]:
    yield "status", log.status + (" (a torn last line was left out)" if log.torn else "")
    for name in (*_OWN, *_PARTS):
        yield from _flat(name, getattr(log.run, name))


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(f"{name}.{key}", part)
    elif isinstance(value, str):
        yield name, value
    else:
        yield name, msgspec.json.encode(value).decode()
