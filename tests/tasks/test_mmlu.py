"""The task mmlu: files, folders and hub rows to items in the released order, what bad data gets, and its prompts."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bcrbench.agents.graph import assign_roles, build_graph
from bcrbench.agents.prompt import build_template
from bcrbench.engine.byte_tokenizer import byte_tokenizer
from bcrbench.errors import UserError
from bcrbench.tasks import TASKS
from bcrbench.tasks.base import items_hash
from bcrbench.tasks.mmlu import Mmlu

GOOD = {"question": "Which?", "choices": ["w", "x", "y", "z"], "answer": "B", "subject": "logic"}
ODD = ["None", "NA", "null", "nan", "N/A", "", "1,000", 'say "so"', "two\nlines", " blanks ", "naïve", "\u2028"]


def row(number: int, subject: str) -> dict[str, Any]:
    """A hub row whose texts are odd ones."""
    choices = [ODD[(number + k) % len(ODD)] for k in range(4)]
    return {"question": f"{ODD[number % 5]} {number}?", "choices": choices, "answer": number % 4, "subject": subject}


SUBJECTS = {"world_religions": 5, "anatomy": 4, "logic": 3, "anatomy_of_melancholy": 3}
HUB_ROWS = [row(number, subject) for subject, count in SUBJECTS.items() for number in range(count)]


def write_folder(folder: Path, rows: list[dict[str, Any]], split: str = "val") -> Path:
    """The rows as the original files hold them."""
    folder.mkdir(exist_ok=True)
    for subject in {row["subject"] for row in rows}:
        with (folder / f"{subject}_{split}.csv").open("w", encoding="utf-8", newline="") as file:
            for row in rows:
                if row["subject"] == subject:
                    csv.writer(file).writerow([row["question"], *row["choices"], "ABCD"[row["answer"]]])
    return folder


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., str]:
    """Writes rows (objects or raw lines) and gives the path as text."""

    def write(*rows: Any) -> str:
        path = tmp_path / "rows.jsonl"
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return str(path)

    return write


@pytest.fixture
def hub(hub: SimpleNamespace) -> SimpleNamespace:
    """The data set's stand-in, with rows of several subjects."""
    hub.rows = HUB_ROWS
    return hub


def refusal(data: str | None) -> str:
    """The one line that a person gets."""
    with pytest.raises(UserError) as caught:
        Mmlu().items(data)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_and_the_hub_give_the_same_items(hub: SimpleNamespace, tmp_path: Path) -> None:
    folder = Mmlu().items(str(write_folder(tmp_path / "val", HUB_ROWS)))
    assert hub.calls == []
    assert Mmlu().items("cais/mmlu") == folder
    assert hub.calls == [(("cais/mmlu", "all"), {"split": "validation"})]
    assert len(folder) == len(HUB_ROWS)


def test_the_order_is_the_released_one(tmp_path: Path) -> None:
    """Files by name, concatenated, and the index permuted by numpy's generator seeded with 888."""
    folder = write_folder(tmp_path / "val", HUB_ROWS)
    files = sorted(os.listdir(folder))
    assert files[:2] == ["anatomy_of_melancholy_val.csv", "anatomy_val.csv"]  # not the order of the subjects' names
    names = [f"{name[:-8]}-{k:04d}" for name in files for k in range(SUBJECTS[name[:-8]])]
    expected = np.random.default_rng(888).permutation(np.array(names)).tolist()
    assert [item.id for item in Mmlu().items(str(folder))] == expected
    assert expected != names


def test_a_question_is_worded_as_released(file: Callable[..., str]) -> None:
    item = Mmlu().items(file(GOOD))[0]
    assert item.question == "Which?\nOption A: w\nOption B: x\nOption C: y\nOption D: z\n"
    assert (item.gold, item.id, dict(item.meta)) == ("B", "logic-0000", {"subject": "logic"})


def test_a_file_keeps_its_order_and_names_rows_as_the_folder_does(file: Callable[..., str], tmp_path: Path) -> None:
    listed = Mmlu().items(file(*HUB_ROWS))
    assert [item.meta["subject"] for item in listed] == [row["subject"] for row in HUB_ROWS]
    folder = Mmlu().items(str(write_folder(tmp_path / "val", HUB_ROWS)))
    assert {item.id: item.hash for item in listed} == {item.id: item.hash for item in folder}


def test_no_text_is_read_as_missing(file: Callable[..., str]) -> None:
    item = Mmlu().items(file(GOOD | {"question": "nan", "choices": ["None", "NA", "null", ""]}))[0]
    assert item.question == "nan\nOption A: None\nOption B: NA\nOption C: null\nOption D: \n"


def test_letters_and_numbers_are_answers_and_ids_and_subjects_optional(file: Callable[..., str]) -> None:
    bare = {key: value for key, value in GOOD.items() if key != "subject"}
    rows = [GOOD | {"answer": answer} for answer in ("A", "D", 0, 3)] + [bare, bare | {"id": 7}, GOOD | {"id": "x"}]
    items = Mmlu().items(file(*rows))
    assert [item.gold for item in items] == ["A", "D", "A", "D", "B", "B", "B"]
    assert [item.id for item in items][3:] == ["logic-0003", "mmlu-0000", "7", "x"]


def test_subjects_are_chosen_from_the_permuted_items(hub: SimpleNamespace, tmp_path: Path) -> None:
    folder = str(write_folder(tmp_path / "val", HUB_ROWS))
    everything = Mmlu().items(folder)
    for source in (folder, "cais/mmlu"):
        chosen = Mmlu().items(f"{source}?subjects=logic,anatomy")
        assert chosen == [item for item in everything if item.meta["subject"] in {"logic", "anatomy"}]
        assert len(chosen) == 7


def test_an_unknown_subject_names_the_nearest(tmp_path: Path) -> None:
    folder = str(write_folder(tmp_path / "val", HUB_ROWS))
    message = refusal(f"{folder}?subjects=logic,anatomi")
    assert "unknown subject 'anatomi' (did you mean 'anatomy'?)" in message
    assert "world_religions" in message


@pytest.mark.parametrize("query", ["subject=logic", "subjects=", "subjects", "logic", "", "subjects=,"])
def test_another_selector_is_refused(file: Callable[..., str], query: str) -> None:
    assert "expected subjects=NAME" in refusal(f"{file(GOOD)}?{query}")


def test_a_path_with_a_question_mark_is_a_path(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "val?subjects=none", HUB_ROWS)
    assert len(Mmlu().items(str(folder))) == len(HUB_ROWS)


@given(rows=st.lists(st.tuples(st.sampled_from(["a", "b_c", "b"]), st.text(), st.integers(0, 3)), min_size=1))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_survives_the_files_and_the_hub_alike(
    hub: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, int]]
) -> None:
    clean = [(name, text.encode("utf-8", "replace").decode().replace("\0", ""), gold) for name, text, gold in rows]
    hub.rows = [
        {"question": f"Q{text}", "choices": [text, "x", f"{text}y", "z"], "answer": gold, "subject": name}
        for name, text, gold in clean
    ]
    items = Mmlu().items(str(write_folder(tmp_path_factory.mktemp("rows") / "val", hub.rows)))
    assert items == Mmlu().items("cais/mmlu")
    assert sorted(item.question for item in items) == sorted(
        f"Q{text}\nOption A: {text}\nOption B: x\nOption C: {text}y\nOption D: z\n" for _, text, _ in clean
    )
    assert items_hash(items) == items_hash(Mmlu().items("cais/mmlu"))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({**GOOD, "question": None}, "field 'question': expected text"),
        ({**GOOD, "question": " \n"}, "field 'question': expected text"),
        ({key: GOOD[key] for key in ("choices", "answer")}, "field 'question': missing"),
        ({key: GOOD[key] for key in ("question", "answer")}, "field 'choices': missing"),
        ({key: GOOD[key] for key in ("question", "choices")}, "field 'answer': missing"),
        (GOOD | {"choices": "wxyz"}, "field 'choices': expected four texts"),
        (GOOD | {"choices": ["w", "x", "y"]}, "field 'choices' has 3 options, expected 4"),
        (GOOD | {"choices": [*"wxyzq"]}, "field 'choices' has 5 options, expected 4"),
        (GOOD | {"choices": ["w", "x", "y", None]}, "field 'choices': expected four texts"),
        (GOOD | {"answer": "E"}, "field 'answer': expected a letter A to D, or 0 to 3, not 'E'"),
        (GOOD | {"answer": "b"}, "field 'answer': expected a letter"),
        (GOOD | {"answer": "AB"}, "field 'answer': expected a letter"),
        (GOOD | {"answer": ""}, "field 'answer': expected a letter"),
        (GOOD | {"answer": 4}, "field 'answer': expected a letter"),
        (GOOD | {"answer": -1}, "field 'answer': expected a letter"),
        (GOOD | {"answer": True}, "field 'answer': expected a letter"),
        (GOOD | {"answer": ["B"] * 999}, "field 'answer': expected a letter"),
        (GOOD | {"subject": ""}, "field 'subject': expected text"),
        (GOOD | {"id": 1.5}, "field 'id': expected text or an integer"),
        (GOOD | {"id": "logic-0000"}, "field 'id': 'logic-0000' is given twice"),
        ([1, 2], "expected an object with 'question', 'choices' and 'answer'"),
        (b"{", "expected one JSON object a line"),
        (b"Which?,w,x,y,z,B", "expected one JSON object a line (CSV files are given as their folder)"),
    ],
)
def test_bad_rows_name_file_line_and_field(file: Callable[..., str], row: Any, words: str) -> None:
    path = file(GOOD, b"", row)
    message = refusal(path)
    assert message.startswith(f"{path}:3: {words}")
    assert len(message) < len(path) + 250


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Which?,w,x,y,B", "field 'answer' is missing; cells: 5, expected 6: question, option A"),
        ("Which?", "field 'option A' is missing; cells: 1"),
        ("Which?,w,x,y,z,q,B", "cells: 7, expected 6"),
        (",w,x,y,z,B", "field 'question': expected text"),
        ("Which?,w,x,y,z,E", "field 'answer': expected a letter A to D"),
        ("Which?,w,x,y,z,", "field 'answer': expected a letter A to D"),
        ("question,A,B,C,D,answer", "field 'answer': expected a letter A to D"),
        ('Which?,w,x,y,z,"B\n', "field 'answer': expected a letter A to D"),
    ],
)
def test_bad_csv_lines_name_file_line_and_field(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "logic_val.csv"
    path.write_text(f'"Two\nlines?",w,x,y,z,B\n\n{line}', encoding="utf-8")
    assert refusal(str(tmp_path)).startswith(f"{path}:4: {words}")


@pytest.mark.parametrize("content", [b"\xff,w,x,y,z,B\n", b"Q" + b"q" * 200_000 + b",w,x,y,z,B\n"])
def test_what_is_no_csv_text_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "logic_val.csv").write_bytes(content)
    assert f"{tmp_path}/logic_val.csv:1: expected CSV text" in refusal(str(tmp_path))


def test_files_are_read_with_a_byte_order_mark_and_hidden_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / "logic_val.csv").write_bytes(b"\xef\xbb\xbfWhich?,w,x,y,z,B\r\n")
    (tmp_path / "._logic_val.csv").write_bytes(b"\0\1")
    (tmp_path / "README.txt").write_text("not data")
    assert [item.question[:7] for item in Mmlu().items(str(tmp_path))] == ["Which?\n"]


def test_the_files_of_two_splits_are_refused(tmp_path: Path) -> None:
    write_folder(tmp_path, HUB_ROWS, "dev")
    write_folder(tmp_path, HUB_ROWS, "val")
    assert "anatomy_of_melancholy_dev.csv and anatomy_of_melancholy_val.csv are of one subject" in refusal(
        str(tmp_path)
    )


def test_empty_data_is_refused(file: Callable[..., str], tmp_path: Path, hub: SimpleNamespace) -> None:
    assert "no rows" in refusal(file())
    folder = tmp_path / "val"
    folder.mkdir()
    assert "holds no *.csv file" in refusal(str(folder))
    (folder / "logic_val.csv").write_text("")
    assert "no rows" in refusal(str(folder))
    hub.rows = []
    assert "no rows" in refusal("cais/mmlu")


def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logic_val.csv").mkdir()
    assert "logic_val.csv: cannot be read" in refusal(str(tmp_path))

    def denied(path: object) -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", denied)
    assert "cannot be read (Permission denied)" in refusal(str(tmp_path))


@pytest.mark.parametrize(
    "data", ["missing.jsonl", "folder/missing.csv", "mmlu", "a/b/c", "", "x" * 5000, "?subjects=a"]
)
def test_what_is_neither_path_nor_hub_name_is_refused_without_network(hub: SimpleNamespace, data: str) -> None:
    assert "no such file or folder" in refusal(data)
    assert hub.calls == []


def test_no_data_says_what_to_give(hub: SimpleNamespace) -> None:
    assert "cais/mmlu" in refusal(None) and hub.calls == []


@pytest.mark.parametrize("error", [ConnectionError("no\nroute"), ValueError("BuilderConfig 'all' not found")])
def test_a_data_set_that_cannot_be_loaded_is_refused_in_one_line(hub: SimpleNamespace, error: Exception) -> None:
    hub.error = error
    message = refusal("some-one/some.set?subjects=logic")
    assert "some-one/some.set" in message and "'all'" in message and "'validation'" in message


def test_hub_rows_are_checked_too(hub: SimpleNamespace) -> None:
    hub.rows = [GOOD, GOOD | {"answer": -1}]
    assert refusal("cais/mmlu").startswith("cais/mmlu, row 1: field 'answer'")


def test_files_need_no_datasets_package(file: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)  # importing it now raises ImportError
    assert Mmlu().items(file(GOOD))
    assert "'datasets'" in refusal("cais/mmlu")


def test_the_task_is_registered_and_whole() -> None:
    task = TASKS.get("mmlu")()
    assert (task.name, task.max_new_tokens, task.default_grader) == ("mmlu", 512, "first-letter")
    assert list(task.graders) == ["letter-substring", "first-letter", "last-letter", "answer-is", "single-letter"]
    assert all(name == grader.name for name, grader in task.graders.items())
    assert not hasattr(task, "default_limit")  # 153 is the paper's recipes'


PROMPTS = Mmlu().prompts()
ROLES = [
    "Knowledgeable Expert", "Wiki Searcher", "Critic", "Mathematician", "Psychologist", "Historian", "Doctor", "Lawyer",
    "Economist", "Programmer",
]  # fmt: skip


def test_the_ten_roles_stand_in_the_released_order() -> None:
    assert PROMPTS.worker_roles() == ROLES
    assert {prompt.assistant for prompt in PROMPTS.everyone} == {""}


def test_only_the_deciding_node_is_asked_for_a_letter() -> None:
    asked = [prompt.role for prompt in PROMPTS.everyone if re.search(r"\bletters?\b|\boption [A-D]\b", prompt.system)]
    assert asked == ["Decision Maker"]


def test_the_expert_is_shown_how_to_mark_what_to_look_up() -> None:
    marked = {prompt.role: re.findall(r"@([^@]+)@", prompt.system) for prompt in PROMPTS.everyone}
    assert len(marked.pop("Knowledgeable Expert")) == 3
    assert not any(marked.values())


@pytest.mark.parametrize("roles", [ROLES[:3], ROLES[3:6], ROLES[6:]])
def test_every_agents_template_has_its_segments_and_the_questions_own_prefix(roles: list[str]) -> None:
    tokenizer = byte_tokenizer()
    agents = build_graph("full", len(roles), assign_roles("cycle", roles, len(roles)), "Decision Maker")
    for agent in agents:
        template = build_template(tokenizer, PROMPTS.with_tools([]), agent, agents)
        assert template.names == ["question", *(f"agent_{peer}" for peer in agent.hears)]
        assert template.texts[0].endswith(PROMPTS.question_prefix)
        assert all(text.strip() for text in template.texts)
        for peer, text in zip(agent.hears, template.texts[1:], strict=False):
            assert f"Agent {peer}, whose role is {next(a.role for a in agents if a.id == peer)}," in text
