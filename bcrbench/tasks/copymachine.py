"""CopyMachine: synthetic prompts of controlled length, for times and nothing else (Table 10, App. C).

One question is S random symbols, "Ω Δ Δ Ω ...", and every agent answers with as many tokens as it is allowed. Symbols
are placeholders: what the model reads are two tokens of its own vocabulary (`bcrbench.tasks.symbols`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from bcrbench.agents.promptset import PromptSet
from bcrbench.errors import UserError, told
from bcrbench.grading.nothing import Nothing
from bcrbench.tasks.base import Grader, Item, Spelling
from bcrbench.tasks.prompt_files import bundled_prompts
from bcrbench.tasks.symbols import CANDIDATES, PLACEHOLDERS, Pair, apart, counted, runs_of

ITEMS = 100
DEFAULT = "symbols=512"
LONGEST = 32_768
SEED = 42


class CopyMachine:
    """The task `copymachine`: one role, nobody decides, nothing is graded, every answer is equally long."""

    name = "copymachine"
    graders: Mapping[str, Grader] = {"none": Nothing()}
    default_grader = "none"
    max_new_tokens = 512
    fixed_length = True
    twins = True

    def prompts(self) -> PromptSet:
        """512 symbols, then the request to go on at random."""
        return bundled_prompts("copymachine")

    def items(self, data: str | None) -> list[Item]:
        """100 questions of S random symbols; `data` is `symbols=S`. Raises UserError for anything else."""
        symbols = _symbols(DEFAULT if data is None else data)
        dice = Random(SEED)
        return [
            Item(
                id=f"copymachine-{index:04d}",
                question=" ".join(dice.choices(PLACEHOLDERS, k=symbols)),
                gold="",
                meta={"symbols": symbols},
            )
            for index in range(ITEMS)
        ]

    def spell(self, tokenizer: Any, prompts: PromptSet, items: Sequence[Item]) -> Spelling:
        """The first pair of symbols of which S are S tokens, in every question and in the prompts' own runs.

        Raises UserError that names the counts when there is none.
        """
        questions = [item.question for item in items]
        wording = [text for text in _texts(msgspec.to_builtins(prompts)) if any(runs_of(text))]
        refused = []
        for pair in CANDIDATES:
            wrong = counted(tokenizer, pair, questions, wording)
            if wrong is None and apart(tokenizer, pair):
                return Spelling(pair.name, pair.text)
            refused.append(_refusal(pair, None if wrong is None else (wrong.symbols, wrong.tokens)))
        raise UserError(f"task copymachine: no symbols are one token each in this tokenizer: {', '.join(refused)}")


def _symbols(data: str) -> int:
    found = re.fullmatch(r"symbols=([0-9]{1,5})", data)
    if found is None or not 1 <= int(found[1]) <= LONGEST:
        raise UserError(f"--data {told(data)}: expected symbols=1 to symbols={LONGEST}")
    return int(found[1])


def _texts(part: Any) -> Iterator[str]:
    """Every text in a prompt set."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, (dict, list)):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from _texts(inner)


def _refusal(pair: Pair, wrong: tuple[int, int] | None) -> str:
    return f"{pair.name!r} is unknown to it" if wrong is None else f"{wrong[0]} as {pair.name!r} are {wrong[1]}"
