"""Verdicts: by pattern, by the model, and what is left ungraded or owed when the means are missing or fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from arbitrary import lines, plain_item, plain_run

from bcrbench.errors import RunFailed, UserError
from bcrbench.grading import regrade as module
from bcrbench.grading.kit import Kit
from bcrbench.grading.regrade import regrade
from bcrbench.grading.released import MAX_TOKENS, Released
from bcrbench.grading.verdict import Verdict, verdict
from bcrbench.runs.log import read_log
from bcrbench.tasks.gsm8k import Gsm8k


def answering(reply: str) -> tuple[Kit, list[tuple[str, str, int]]]:
    """A kit whose model always gives one reply, and what it was asked."""
    kit, asked = Kit(), []

    def ask(system: str, user: str, limit: int) -> str:
        asked.append((system, user, limit))
        return reply

    kit.ask = ask
    return kit, asked


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ("18", "correct"),
        ("18.0", "correct"),
        ("1.8e1", "correct"),
        ("$18", "wrong"),
        ("18 dollars", "wrong"),
        ("", "wrong"),
    ],
)
def test_the_released_grader_compares_floats_of_what_the_model_reads(reply: str, outcome: str) -> None:
    kit, asked = answering(reply)
    found = verdict(Released(), "A: it is 18. A: really", "18", kit)
    assert (found.prediction, found.outcome) == (reply, outcome)
    assert [(user, limit) for _, user, limit in asked] == [("it is 18. A: really", MAX_TOKENS)]


def test_without_a_model_the_released_grader_leaves_the_item_ungraded() -> None:
    assert verdict(Released(), "18", "18", Kit()).outcome == "ungraded"


def test_a_grader_by_pattern_needs_nothing() -> None:
    assert verdict(Gsm8k().graders["exact"], "so 18", "18", Kit()) == Verdict("18", "correct")
    assert verdict(Gsm8k().graders["exact"], "none", "18", Kit()) == Verdict(None, "wrong")


class Runs:
    """A grader that runs code; its verdicts are looked up by the text."""

    name = "runs"
    version = 1
    runs_code = True
    outcomes = {"good": "correct", "bad": "wrong", "slow": "error:timeout", "broken": "error:harness"}

    def predict(self, text: str) -> str | None:
        """The text itself."""
        return text

    def correct(self, prediction: str | None, gold: str) -> bool:
        """Not asked."""
        raise AssertionError

    def judge(self, text: str, gold: str, kit: Kit) -> Verdict:
        """The verdict of the text."""
        return Verdict(text, self.outcomes[text], f"because {text}")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a log of items with the given texts, left ungraded, whose task has the grader `runs`."""
    monkeypatch.setattr(module, "graders_of", lambda log: {"runs": Runs(), "asks": Released()})
    monkeypatch.setattr(Kit, "sandbox", None)

    def write(*texts: str) -> Path:
        path = tmp_path / "a.jsonl"
        items = [plain_item(number, text=text, outcome="ungraded") for number, text in enumerate(texts)]
        path.write_bytes(lines(plain_run(stateful=False), *items))
        return path

    return write


def test_every_outcome_is_kept_apart_with_its_reason(log: Any) -> None:
    path = log("good", "bad", "slow")
    assert regrade(path, "runs", Kit(code=True)).correct == 1
    grades = read_log(path).grades
    assert [(grade.outcome, grade.reason) for grade in grades] == [
        ("correct", "because good"), ("wrong", "because bad"), ("error:timeout", "because slow"),
    ]  # fmt: skip


def test_a_failure_of_ours_is_no_grade_fails_the_command_and_stays_owed(
    log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log("good", "broken", "bad")
    with pytest.raises(RunFailed, match=r"1 of 3 items.*q1: because broken"):
        regrade(path, "runs", Kit(code=True))
    assert [grade.id for grade in read_log(path).grades] == ["q0", "q2"]
    monkeypatch.setitem(Runs.outcomes, "broken", "wrong")
    assert regrade(path, "runs", Kit(code=True)).added == 1
    assert [grade.id for grade in read_log(path).grades] == ["q0", "q2", "q1"]


@pytest.mark.parametrize(("name", "words"), [("runs", "--allow-code-execution"), ("asks", "asks the model")])
def test_a_grader_without_its_means_is_refused_and_nothing_is_written(log: Any, name: str, words: str) -> None:
    path = log("good")
    before = path.read_bytes()
    with pytest.raises(UserError, match=words):
        regrade(path, name, Kit())
    assert path.read_bytes() == before


def test_a_kit_without_leave_opens_no_sandbox() -> None:
    with pytest.raises(UserError, match="--allow-code-execution"):
        _ = Kit().sandbox
