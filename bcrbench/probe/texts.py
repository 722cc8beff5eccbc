"""Long segments for a probe, made from a task's own items (paper section 4.2: one long shared segment)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

from bcrbench.agents.prompt import encode
from bcrbench.errors import UserError
from bcrbench.tasks.base import Item

BETWEEN = "\n\n"  # what follows each question


@dataclass(frozen=True)
class Text:
    """A segment's ids, and the ids of the first and last item that went into it."""

    ids: list[int]
    first: str
    last: str


def long_texts(tokenizer: Any, items: Sequence[Item], count: int, tokens: int) -> list[Text]:
    """`count` texts of exactly `tokens` ids each: questions in the task's order, no item in two texts.

    Raises UserError when the items do not suffice.
    """
    texts: list[Text] = []
    ids: list[int] = []
    first = ""
    for item in items:
        first = first or item.id
        ids += encode(tokenizer, item.question + BETWEEN)
        if len(ids) < tokens:
            continue
        texts.append(Text(ids[:tokens], first, item.id))
        if len(texts) == count:
            return texts
        ids, first = [], ""
    raise UserError(
        f"{len(items)} items give {len(texts)} texts of {tokens} tokens, expected {count} for anchors and prompts; "
        "take more items (--limit) or a shorter segment"
    )
