"""GSM8K: word problems with a number as the answer, in the order of the official test split.

One row of a data file is {"question": "A robe takes 2 bolts ...", "answer": "It takes ... #### 3"}: the gold answer is
what follows the last ####, its commas removed. `id` is optional.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bcrbench.agents.promptset import PromptSet
from bcrbench.errors import UserError
from bcrbench.grading.extractors import Exact, Strict
from bcrbench.tasks.base import Grader, Item
from bcrbench.tasks.data_file import read_rows
from bcrbench.tasks.prompt_files import bundled_prompts

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_FILE_ENDINGS = (".jsonl", ".json", ".gz", ".csv", ".parquet")
_GOLD = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


class Gsm8k:
    """The task `gsm8k`: a data file or a hub data set, four roles, graded on the final number."""

    name = "gsm8k"
    default_grader = "exact"
    max_new_tokens = 512

    def __init__(self) -> None:
        self.graders: Mapping[str, Grader] = {"exact": Exact(), "strict": Strict()}

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
            return _items(data, read_rows(Path(data), object, "one JSON object a line"))
        if _HUB_NAME.fullmatch(data) and not data.endswith(_FILE_ENDINGS):
            return _items(data, ((f"{data}, row {i}", row) for i, row in enumerate(_load_hub(data))))
        raise UserError(f"--data {data}: no such file; expected FILE.jsonl or a hub name such as openai/gsm8k")


def _load_hub(name: str) -> Iterable[Any]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise UserError(f"--data {name}: needs the package 'datasets' (pip install datasets)") from error
    try:
        return load_dataset(name, "main", split="test")
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"--data {name}: cannot be loaded, expected a hub data set with config 'main' and split 'test', or a file "
            f"that is there ({reason})"
        ) from error


def _items(data: str, rows: Iterable[tuple[str, Any]]) -> list[Item]:
    items: list[Item] = []
    seen: set[str] = set()
    for where, row in rows:
        item = _item(where, row, len(items))
        if item.id in seen:
            raise UserError(f"{where}: field 'id': {item.id!r} is given twice, expected one row an id")
        seen.add(item.id)
        items.append(item)
    if not items:
        raise UserError(f"--data {data}: no rows, expected at least one")
    return items


def _item(where: str, row: Any, index: int) -> Item:
    if not isinstance(row, dict):
        raise UserError(f"{where}: expected an object with 'question' and 'answer', not {type(row).__name__}")
    question = _text(where, row, "question")
    answer = _text(where, row, "answer")
    marked, gold = answer.rpartition("####")[1:]
    gold = gold.strip().replace(",", "")
    if not marked or not _GOLD.fullmatch(gold):
        raise UserError(f"{where}: field 'answer': expected text that ends in '#### NUMBER', not {_tail(answer)}")
    return Item(id=_id(where, row, index), question=question, gold=gold)


def _text(where: str, row: dict[str, Any], field: str) -> str:
    value = row.get(field)
    if field not in row:
        raise UserError(f"{where}: field {field!r}: missing, expected text")
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{where}: field {field!r}: expected text, not {_tail(value)}")
    return value


def _id(where: str, row: dict[str, Any], index: int) -> str:
    value = row.get("id", f"gsm8k-{index:04d}")
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise UserError(f"{where}: field 'id': expected text or an integer, not {_tail(value)}")
    return str(value)


def _tail(value: Any, length: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= length else "…" + text[-length:]
