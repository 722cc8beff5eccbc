"""MMLU: questions with four options, in the released baseline's order (section 4; kvcomm.md 4).

One row is {"question": "Which planet is largest?", "choices": ["Mars", "Venus", "Jupiter", "Earth"], "answer": 2,
"subject": "astronomy"}, or a line of the original CSV files, `Which planet is largest?,Mars,Venus,Jupiter,Earth,C`;
the gold answer is the letter C. Text stays as it is: "None" and "NA" are options like any other.
"""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bcrbench.agents.promptset import PromptSet
from bcrbench.errors import UserError, told, unknown
from bcrbench.grading.letters import LETTERS, AnswerIs, FirstLetter, LastLetter, LetterSubstring, SingleLetter
from bcrbench.tasks.base import Grader, Item
from bcrbench.tasks.data_file import read_rows
from bcrbench.tasks.hub import hub_rows, is_hub_name
from bcrbench.tasks.prompt_files import bundled_prompts
from bcrbench.tasks.rows import as_object, collect, field_of, id_of, text_of

ORDER_SEED = 888  # the release's
_CSV_FIELDS = ("question", "option A", "option B", "option C", "option D", "answer")
_SPLIT = re.compile(r"(_val|_test|_dev)?\.csv$")
_SELECTOR = "subjects="
_EXPECTED = "a folder of the original CSV files, FILE.jsonl, or a hub name such as cais/mmlu"


class Mmlu:
    """The task `mmlu`: CSV files, a JSONL file or a hub data set, ten roles, graded on a letter."""

    name = "mmlu"
    default_grader = "first-letter"
    max_new_tokens = 512

    def __init__(self) -> None:
        graders = (LetterSubstring(), FirstLetter(), LastLetter(), AnswerIs(), SingleLetter())
        self.graders: Mapping[str, Grader] = {grader.name: grader for grader in graders}

    def prompts(self) -> PromptSet:
        """Our wording of the ten roles and the deciding node."""
        return bundled_prompts("mmlu")

    def items(self, data: str | None) -> list[Item]:
        """All items: of CSV files or a hub data set permuted as released, of a JSONL file in its order.

        `?subjects=NAME,...` behind the source leaves the items of these subjects, in the same order. Raises UserError
        for missing data, an unknown subject, an unreachable data set, and a bad row (file, line, field). Only a hub
        name uses the network.
        """
        if data is None:
            raise UserError(f"task mmlu ships no data: give --data with {_EXPECTED}")
        source, subjects = _selection(data)
        items = collect(source, _source(source))
        return _of_subjects(source, items, subjects) if subjects else items


def _selection(data: str) -> tuple[str, list[str]]:
    """The source and the subjects that were asked for; a path that exists is taken as it is."""
    source, mark, query = data.rpartition("?")
    if not mark or os.path.exists(data):
        return data, []
    subjects = [name for name in query.removeprefix(_SELECTOR).split(",") if name]
    if not query.startswith(_SELECTOR) or not subjects:
        raise UserError(f"--data {data}: behind the question mark expected {_SELECTOR}NAME,..., not {told(query)}")
    return source, subjects


def _source(source: str) -> Iterable[tuple[str, Item]]:
    if os.path.isdir(source):
        return _permuted(_numbered(_folder_rows(Path(source))))
    if os.path.exists(source):
        return _numbered(
            read_rows(Path(source), object, "one JSON object a line (CSV files are given as their folder)")
        )
    if is_hub_name(source):
        return _permuted(_numbered(_by_subject(hub_rows(source, config="all", split="validation"))))
    raise UserError(f"--data {source}: no such file or folder; expected {_EXPECTED}")


def _of_subjects(source: str, items: Sequence[Item], subjects: Sequence[str]) -> list[Item]:
    known = {item.meta["subject"] for item in items}
    for name in subjects:
        if name not in known:
            raise UserError(f"--data {source}: {unknown('subject', name, filter(None, known))}")
    return [item for item in items if item.meta["subject"] in subjects]


def _permuted(items: Iterable[tuple[str, Item]]) -> list[tuple[str, Item]]:
    """The release's pseudo-random order, which depends on the number of rows alone."""
    from numpy.random import default_rng

    rows = list(items)
    return [rows[index] for index in default_rng(ORDER_SEED).permutation(len(rows))]


def _numbered(rows: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Item]]:
    """Items of rows; one without an id is named after its subject and its place among that subject's rows."""
    counts: Counter[str] = Counter()
    for where, row in rows:
        row = as_object(where, row, "'question', 'choices' and 'answer'")
        subject = text_of(where, row, "subject") if "subject" in row else ""
        yield where, _item(where, row, subject, f"{subject or 'mmlu'}-{counts[subject]:04d}")
        counts[subject] += 1


def _item(where: str, row: Mapping[str, Any], subject: str, default_id: str) -> Item:
    question = text_of(where, row, "question")
    options = "".join(f"Option {letter}: {text}\n" for letter, text in zip(LETTERS, _choices(where, row), strict=True))
    return Item(
        id=id_of(where, row, default_id),
        question=f"{question}\n{options}",  # the last newline is the release's and stays inside the segment
        gold=_letter(where, row),
        meta={"subject": subject},
    )


def _choices(where: str, row: Mapping[str, Any]) -> Sequence[str]:
    value = field_of(where, row, "choices", "four texts")
    if not isinstance(value, (list, tuple)) or not all(isinstance(choice, str) for choice in value):
        raise UserError(f"{where}: field 'choices': expected four texts, not {told(value)}")
    if len(value) != len(LETTERS):
        raise UserError(f"{where}: field 'choices' has {len(value)} options, expected {len(LETTERS)}")
    return value


def _letter(where: str, row: Mapping[str, Any]) -> str:
    value = field_of(where, row, "answer", "a letter A to D, or 0 to 3")
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(LETTERS):
        return LETTERS[value]
    if isinstance(value, str) and len(value) == 1 and value in LETTERS:
        return value
    raise UserError(f"{where}: field 'answer': expected a letter A to D, or 0 to 3, not {told(value)}")


def _by_subject(rows: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Hub rows as the files would hold them: subjects sorted as file names are, the rows of one in their order."""
    return sorted(rows, key=lambda pair: f"{pair[1].get('subject', '')}_val.csv")


def _folder_rows(folder: Path) -> Iterator[tuple[str, Any]]:
    """(`file:line`, row) of a folder's CSV files, by file name."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".csv") and not name.startswith("."))
    except OSError as error:
        raise UserError(f"--data {folder}: cannot be read ({error.strerror}), expected {_EXPECTED}") from error
    if not names:
        raise UserError(
            f"--data {folder}: holds no *.csv file, expected the original ones, such as abstract_algebra_val.csv"
        )
    files: dict[str, str] = {}
    for name in names:
        first = files.setdefault(_SPLIT.sub("", name), name)
        if first != name:
            raise UserError(f"--data {folder}: {first} and {name} are of one subject, expected the files of one split")
    for subject, name in files.items():
        yield from _csv_rows(folder / name, subject)


def _csv_rows(path: Path, subject: str) -> Iterator[tuple[str, Any]]:
    """Rows of one file without a header; a row is named by the line on which it begins."""
    line = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            for cells in reader:
                if cells:
                    yield f"{path}:{line}", _csv_row(f"{path}:{line}", cells, subject)
                line = reader.line_num + 1
    except OSError as error:
        raise UserError(f"--data {path}: cannot be read ({error.strerror}), expected a CSV file") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{path}:{line}: expected CSV text in UTF-8 ({error})") from error


def _csv_row(where: str, cells: Sequence[str], subject: str) -> dict[str, Any]:
    if len(cells) != len(_CSV_FIELDS):
        missing = _CSV_FIELDS[len(cells) :]
        lacks = f"field {missing[0]!r} is missing; " if missing else ""
        raise UserError(f"{where}: {lacks}cells: {len(cells)}, expected 6: {', '.join(_CSV_FIELDS)}")
    return {"question": cells[0], "choices": list(cells[1:5]), "answer": cells[5], "subject": subject}
