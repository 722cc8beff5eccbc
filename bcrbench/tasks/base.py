"""What a task is: items, prompts and a grader. Adding one is one new file and one line in the registry."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Mapping, Protocol, Sequence, runtime_checkable

from bcrbench.agents.promptset import PromptSet


@dataclass(frozen=True)
class Item:
    """One benchmark question. `agent_golds` maps a role to that role's own gold answer, where it has one.

    `meta` is for people; what all items of a run agree on stands in the run record. `written` is the question as the
    task wrote it, where it was spelled anew for a tokenizer.
    """

    id: str
    question: str
    gold: str
    agent_golds: Mapping[str, str] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    written: str | None = None

    @property
    def hash(self) -> str:
        """First 16 hex digits of the SHA-256 of id, question and gold; pairing compares it. No tokenizer changes it."""
        return digest([self.id, self.question if self.written is None else self.written, self.gold])


def digest(value: Any) -> str:
    """First 16 hex digits of the SHA-256 of the value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def items_hash(items: list[Item]) -> str:
    """Hash of an item set in its order."""
    return digest([item.hash for item in items])


def common_meta(items: Sequence[Item]) -> dict[str, Any]:
    """What all items' `meta` agree on."""
    first = items[0].meta if items else {}
    return {key: value for key, value in first.items() if all(item.meta.get(key) == value for item in items)}


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


@dataclass(frozen=True)
class Spelling:
    """How a task's texts are written for one tokenizer: a name for the run record, and the change itself."""

    name: str
    text: Callable[[str], str]


@runtime_checkable
class Spelled(Protocol):
    """A task whose texts depend on the tokenizer: its items and prompts are written in placeholders."""

    def spell(self, tokenizer: Any, prompts: PromptSet, items: Sequence[Item]) -> Spelling:
        """How prompts and questions are written for the tokenizer. Raises UserError when no spelling will do."""


def fixed_length(task: Task) -> bool:
    """Whether every generation of the task is as long as it may be, whatever token comes."""
    return bool(getattr(task, "fixed_length", False))


class Task(Protocol):
    """A benchmark: where its items come from, how its agents are prompted, how answers are graded.

    A task may also have `default_limit` (how many items run when nothing else was asked for), `fixed_length` (every
    generation is `max_new_tokens` long, whatever token comes) and `twins` (reused calls are served by a full prefill,
    too, for their times); `--twins` and `--no-twins` overrule the last.
    """

    name: str
    graders: Mapping[str, Grader]
    default_grader: str
    max_new_tokens: int

    def prompts(self) -> PromptSet:
        """The task's own prompt set; `--prompts FILE` replaces it."""

    def items(self, data: str | None) -> list[Item]:
        """All items, in the task's fixed order. `data` is a file or a hub name. Raises UserError on bad data."""
