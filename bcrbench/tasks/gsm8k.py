"""GSM8K: word problems with a number as the answer, in the order of the official test split.

One row of a data file is {"question": "A robe takes 2 bolts ...", "answer": "It takes ... #### 3"}: the gold answer is
what follows the last ####, its commas removed. `id` is optional.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bcrbench.agents.promptset import PromptSet
from bcrbench.errors import UserError
from bcrbench.grading.extractors import Exact, Strict
from bcrbench.grading.released import Released
from bcrbench.tasks.base import Grader, Item
from bcrbench.tasks.data_file import read_rows
from bcrbench.tasks.hub import hub_rows, is_hub_name
from bcrbench.tasks.prompt_files import bundled_prompts
from bcrbench.tasks.rows import as_object, collect, id_of, text_of

_GOLD = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


class Gsm8k:
    """The task `gsm8k`: a data file or a hub data set, four roles, graded on the final number."""

    name = "gsm8k"
    default_grader = "exact"
    max_new_tokens = 512

    def __init__(self) -> None:
        self.graders: Mapping[str, Grader] = {"exact": Exact(), "strict": Strict(), "released": Released()}

    def prompts(self) -> PromptSet:
        """Our wording of the four roles and the deciding node."""
        return bundled_prompts("gsm8k")

    def items(self, data: str | None) -> list[Item]:
        """All items of a JSONL file, or of config `main`, split `test` of a hub data set, in their order.

        Raises UserError for missing data, an unreachable data set, and a bad row (file, line, field). A file and the
        hub give equal items, ids included. Only a hub name uses the network.
        """
        if data is None:
            raise UserError("task gsm8k ships no data: give --data FILE.jsonl or --data openai/gsm8k")
        if os.path.exists(data):
            return collect(data, _items(read_rows(Path(data), object, "one JSON object a line")))
        if is_hub_name(data):
            return collect(data, _items(hub_rows(data, config="main", split="test")))
        raise UserError(f"--data {data}: no such file; expected FILE.jsonl or a hub name such as openai/gsm8k")


def _items(rows: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Item]]:
    for index, (where, row) in enumerate(rows):
        yield where, _item(where, as_object(where, row, "'question' and 'answer'"), index)


def _item(where: str, row: dict[str, Any], index: int) -> Item:
    question = text_of(where, row, "question")
    answer = text_of(where, row, "answer")
    marked, gold = answer.rpartition("####")[1:]
    gold = gold.strip().replace(",", "")
    if not marked or not _GOLD.fullmatch(gold):
        raise UserError(f"{where}: field 'answer': expected text that ends in '#### NUMBER', not {_tail(answer)}")
    return Item(id=id_of(where, row, f"gsm8k-{index:04d}"), question=question, gold=gold)


def _tail(value: str, length: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= length else "…" + text[-length:]
