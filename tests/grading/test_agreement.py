"""Agreement between graders: counts that add up, kappa by its definition, and what counts as an answer."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrbench.cli.agreement import show_agreement
from bcrbench.cli.main import main
from bcrbench.errors import UserError
from bcrbench.grading.agreement import agreements, kappa, pair_row
from bcrbench.runs.log import read_log
from bcrbench.runs.schema import (
    EndRecord,
    GradeRecord,
    ItemRecord,
    RunRecord,
)
from bcrbench.tasks import TASKS

TEXTS = ["B", "the answer is (b)", "A person says B.", "Answer: C, not B", "", "A and B"]
MMLU = list(TASKS.get("mmlu")().graders)


def run_record(count: int, task: str, grader: dict[str, Any]) -> RunRecord:
    empty: dict[str, Any] = {}
    return RunRecord(
        schema_version=1, fingerprint="f", condition="dense", task=task, cell=empty, given=empty, resolved=empty,
        effective=empty, model=empty, tokenizer=empty, items={"count": count}, prompts=empty, grader=grader,
        seeds=empty, packages={}, code=empty, device=empty, host=empty, started="2026-01-01T00:00:00+00:00",
        stateful=False,
    )  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., Path]:
    """Writes a log of these answers, gold B, and gives its path."""

    def write(
        texts: list[str], *grades: GradeRecord, task: str = "mmlu", name: str = "run", version: int = 1,
        grader: str = "first-letter", outcomes: dict[int, str] | None = None,
    ) -> Path:  # fmt: skip
        used = TASKS.get(task)().graders.get(grader)
        items = []
        for index, text in enumerate(texts):
            found = used.predict(text) if used else None
            outcome = "correct" if used and used.correct(found, "B") else "wrong"
            items.append(
                ItemRecord(
                    index=index, id=f"q{index}", item_hash="h", gold="B", text=text, prediction=found,
                    outcome=(outcomes or {}).get(index, outcome), calls=[], wall_s=1.0,
                )
            )  # fmt: skip
        end = EndRecord(status="complete", items=len(items), correct=0, calls=0, reused=0, new_tokens=0, wall_s=1.0)
        records = [run_record(len(items), task, {"name": grader, "version": version}), *items, end, *grades]
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
        return path

    return write


def compared(*paths: Path) -> Any:
    made = agreements([read_log(path) for path in paths])
    assert len(made) == 1
    return made[0]


def by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["grader"]: row for row in rows}


def test_every_grader_of_the_task_grades_every_answer(log: Callable[..., Path]) -> None:
    made = compared(log(TEXTS))
    rows = by_name(made.graders)
    assert list(rows) == [f"{name} v1" for name in MMLU]
    assert (made.task, made.logs, made.answers) == ("mmlu", 1, 6)
    assert {row["n"] for row in made.graders} == {6}
    # By hand, gold B:      "B"  "is (b)"  "A person says B."  "C, not B"  ""  "A and B"
    assert rows["letter-substring v1"]["correct"] == 4  # 1 0 1 1 0 1
    assert rows["first-letter v1"]["correct"] == 3  # 1 1 1 0 0 0
    assert rows["last-letter v1"]["correct"] == 5  # 1 1 1 1 0 1
    assert rows["answer-is v1"] | {"accuracy": None} == {
        "grader": "answer-is v1", "n": 6, "predicted": 2, "correct": 1, "accuracy": None,
    }  # fmt: skip
    assert rows["single-letter v1"]["accuracy"] == 1 / 6


def test_pairs_are_all_pairs_and_their_cells_add_up(log: Callable[..., Path]) -> None:
    made = compared(log(TEXTS))
    rows = by_name(made.graders)
    assert [(row["first"], row["second"]) for row in made.pairs] == list(combinations(rows, 2))
    for row in made.pairs:
        assert row["both"] + row["only_first"] + row["only_second"] + row["neither"] == row["n"] == 6
        assert row["both"] + row["only_first"] == rows[row["first"]]["correct"]
        assert row["both"] + row["only_second"] == rows[row["second"]]["correct"]
        assert row["agreement"] == (row["both"] + row["neither"]) / 6
    first = made.pairs[0]  # letter-substring and first-letter: B, A person says B | not B, A and B | (b) | ""
    assert [first[key] for key in ("both", "only_first", "only_second", "neither")] == [2, 2, 1, 1]


@given(st.tuples(*[st.integers(0, 40)] * 4))
def test_kappa_is_agreement_beyond_chance(cells: tuple[int, int, int, int]) -> None:
    both, first, second, neither = cells
    n = sum(cells)
    found = kappa(*cells)
    chance = n and ((both + first) * (both + second) + (second + neither) * (first + neither)) / n**2
    if n == 0 or chance == 1:
        assert found is None
    else:
        assert found == pytest.approx(((both + neither) / n - chance) / (1 - chance))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_a_pair_read_from_the_other_side_is_the_same_pair(verdicts: list[tuple[bool, bool]]) -> None:
    one, other = (dict(enumerate(side)) for side in (zip(*verdicts) if verdicts else ([], [])))
    row, back = pair_row("x", "y", one, other), pair_row("y", "x", other, one)
    assert (row["only_first"], row["only_second"]) == (back["only_second"], back["only_first"])
    assert all(row[key] == back[key] for key in ("n", "both", "neither", "agreement"))
    assert row["kappa"] == pytest.approx(back["kappa"]) if row["kappa"] is not None else back["kappa"] is None
    itself = pair_row("x", "x", one, one)
    assert itself["kappa"] in (None, pytest.approx(1.0))


def test_gradings_in_the_log_count_where_they_cannot_be_made_here(log: Callable[..., Path]) -> None:
    """An older version, a grader from elsewhere: on the items that they graded."""
    grades = [
        GradeRecord(id="q0", grader="judge", grader_version=2, prediction="B", outcome="wrong"),
        GradeRecord(id="q0", grader="judge", grader_version=2, prediction="B", outcome="correct"),
        GradeRecord(id="q1", grader="judge", grader_version=2, prediction=None, outcome="wrong"),
        GradeRecord(id="q2", grader="judge", grader_version=2, prediction=None, outcome="error:harness"),
        GradeRecord(id="else", grader="judge", grader_version=2, prediction=None, outcome="wrong"),
    ]
    made = compared(log(TEXTS, *grades, version=7))
    rows = by_name(made.graders)
    assert rows["judge v2"] == {"grader": "judge v2", "n": 2, "predicted": 1, "correct": 1, "accuracy": 0.5}
    assert rows["first-letter v7"]["n"] == rows["first-letter v1"]["n"] == 6
    pair = next(row for row in made.pairs if (row["first"], row["second"]) == ("first-letter v1", "judge v2"))
    assert (pair["n"], pair["both"], pair["only_first"]) == (2, 1, 1)


def test_graders_that_need_more_than_the_text_are_not_run(
    log: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Greedy:
        name, version = "greedy", 1

        def predict(self, text: str) -> str:
            raise AssertionError("was run")

    plain = log(TEXTS, name="plain")
    run = log(TEXTS, grader="greedy", outcomes={0: "correct", 1: "ungraded", 2: "error:timeout"})
    for need in ("needs_model", "runs_code"):
        grader: Any = Greedy()
        setattr(grader, need, True)
        task = TASKS.get("mmlu")()
        task.graders = {"first-letter": task.graders["first-letter"], "greedy": grader}
        monkeypatch.setitem(TASKS._entries, "mmlu", lambda task=task: task)
        assert [row["grader"] for row in compared(plain).graders] == ["first-letter v1"]
        assert by_name(compared(run).graders)["greedy v1"]["n"] == 4


def test_items_that_ended_in_an_error_count_for_no_grader(log: Callable[..., Path]) -> None:
    made = compared(log(TEXTS, outcomes={0: "error:memory"}))
    assert {row["n"] for row in made.graders} == {5}
    assert made.answers == 6


def test_answers_of_several_logs_are_taken_together_and_tasks_apart(log: Callable[..., Path]) -> None:
    one, two = log(TEXTS, name="one"), log(TEXTS[:2], name="two")
    assert by_name(compared(one, two).graders)["first-letter v1"]["n"] == 8
    numbers = log(["The answer is 1"], name="three", task="gsm8k", grader="exact")
    made = agreements([read_log(path) for path in (one, numbers, two)])
    assert [(each.task, each.logs) for each in made] == [("mmlu", 2), ("gsm8k", 1)]


def test_logs_without_items_and_unknown_tasks(log: Callable[..., Path], tmp_path: Path) -> None:
    assert {row["accuracy"] for row in compared(log([])).graders} <= {None}
    path = log(TEXTS)
    path.write_text(path.read_text().replace('"task":"mmlu"', '"task":"mmul"', 1))
    with pytest.raises(UserError, match="did you mean 'mmlu'"):
        show_agreement([path], "table")
    with pytest.raises(UserError, match="cannot be read|no such file|expected"):
        show_agreement([tmp_path / "missing.jsonl"], "table")


@pytest.mark.parametrize("fmt", ["table", "md", "latex"])
def test_people_read_percents_and_three_digits_of_kappa(
    log: Callable[..., Path], capsys: pytest.CaptureFixture[str], fmt: str
) -> None:
    show_agreement([log(TEXTS)], fmt)
    out = capsys.readouterr().out
    assert "mmlu: graders on 6 answers of 1 log" in out and "mmlu: pairs of graders" in out
    row = next(line for line in out.splitlines() if "letter-substring v1" in line and "first-letter v1" in line)
    assert "50.0" in row and "0.000" in row


def test_programs_read_every_row_in_full(log: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = log(TEXTS)
    made = compared(path)
    show_agreement([path], "json")
    rows = json.loads(capsys.readouterr().out)
    assert rows == [
        *({"task": "mmlu", "table": "grader", **row} for row in made.graders),
        *({"task": "mmlu", "table": "pair", **row} for row in made.pairs),
    ]
    show_agreement([path], "csv")
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["table"] for row in table] == [row["table"] for row in rows]
    assert float(table[-1]["agreement"]) == rows[-1]["agreement"]


def test_the_command_shows_it_and_leaves_the_log_as_it_is(
    log: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    texts = TEXTS * 4
    random.Random(3).shuffle(texts)
    path = log(texts)
    before = path.read_bytes()
    with pytest.raises(SystemExit) as done:
        main(["grade", str(path), "--agreement"])
    assert done.value.code == 0
    assert "single-letter v1" in capsys.readouterr().out
    assert path.read_bytes() == before
