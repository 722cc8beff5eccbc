"""What a task is: items, prompts and a grader. Adding one is one new file and one line in the registry."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Mapping, Protocol, Sequence, runtime_checkable

from bcrbench.agents.promptset import PromptSet


@dataclass(frozen=True)
class Item:
    """One benchmark question. `agent_golds` maps a role to that role's own gold answer, where it has one."""

    id: str
    question: str
    gold: str
    agent_golds: Mapping[str, str] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        """First 16 hex digits of the SHA-256 of id, question and gold; pairing compares it."""
        return digest([self.id, self.question, self.gold])


def digest(value: Any) -> str:
    """First 16 hex digits of the SHA-256 of the value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def items_hash(items: list[Item]) -> str:
    """Hash of an item set in its order."""
    return digest([item.hash for item in items])


class Grader(Protocol):
    """A named, versioned answer extractor and comparison. Needs no model."""

    name: str
    version: int

    def predict(self, text: str) -> str | None:
        """The answer found in the text, normalised; None when there is none."""

    def correct(self, prediction: str | None, gold: str) -> bool:
        """Whether the prediction equals the gold answer."""


@runtime_checkable
class GraphGold(Protocol):
    """A task whose final gold depends on which roles take part."""

    def gold(self, item: Item, roles: Sequence[str]) -> str:
        """The gold of the final answer, given the workers' roles."""


def final_gold(task: Task, item: Item, roles: Sequence[str]) -> str:
    """The gold of an item's final answer when workers of these roles take part; by default the item's own."""
    return task.gold(item, roles) if isinstance(task, GraphGold) else item.gold


class Task(Protocol):
    """A benchmark: where its items come from, how its agents are prompted, how answers are graded.

    A task may also have `default_limit`: how many items run when nothing else was asked for.
    """

    name: str
    graders: Mapping[str, Grader]
    default_grader: str
    max_new_tokens: int

    def prompts(self) -> PromptSet:
        """The task's own prompt set; `--prompts FILE` replaces it."""

    def items(self, data: str | None) -> list[Item]:
        """All items, in the task's fixed order. `data` is a file or a hub name. Raises UserError on bad data."""
