"""The commands: tables on stdout, notes on stderr, mistakes as one line, and no torch anywhere."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from loglines import item_record, write_log

from bcrbench.cli.grade import grade
from bcrbench.cli.stats import stats
from bcrbench.errors import UserError
from bcrbench.runs.log import LogWriter, read_log
from bcrbench.tasks import TASKS

ROOT = Path(__file__).parents[2]


def run(command: Any, *arguments: Any) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_log(tmp_path / "dense.jsonl", "dense", [True] * 9 + [False])
    write_log(tmp_path / "kv.jsonl", "kvcomm:gamma=0.3", [False] * 7 + [True] * 3)
    return tmp_path


def test_tables_go_to_stdout_and_notes_to_stderr(folder: Path) -> None:
    made = run(stats, folder, "--format", "json")
    assert [row["condition"] for row in json.loads(made.stdout)] == ["dense", "kvcomm:gamma=0.3"]
    assert "note: kvcomm:gamma=0.3 against dense: only 8 discordant pairs" in made.stderr
    assert run(stats, *folder.glob("*.jsonl"), "--format", "json").stdout.count("kvcomm:gamma=0.3") == 1


def test_mistakes_are_user_errors(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"holds no \*\.jsonl file"):
        run(stats, tmp_path / "empty")
    with pytest.raises(UserError, match="No such file"):
        run(stats, "runs/*.jsonl")
    with pytest.raises(UserError, match="unknown condition for --vs"):
        run(stats, folder, "--vs", "epic")
    assert run(stats, folder, "--format", "yaml").exit_code == 2
    assert run(stats).exit_code == 2


def test_statistics_and_grading_never_import_torch(folder: Path) -> None:
    code = (
        "import sys, pkgutil, importlib, bcrbench.stats, bcrbench.grading\n"
        "for package in (bcrbench.stats, bcrbench.grading):\n"
        "    for module in pkgutil.iter_modules(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(module.name)\n"
        "from bcrbench.cli.stats import stats\n"
        "stats([sys.argv[1], '--latency', '--agents', '--difference'], standalone_mode=False)\n"
        "heavy = {'torch', 'transformers', 'statsmodels', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "kvcomm" in done.stdout


class Last:
    """A grader: the last number of a text."""

    name, version = "last", 2

    def predict(self, text: str) -> str | None:
        found = re.findall(r"\d+", text)
        return found[-1] if found else None

    def correct(self, prediction: str | None, gold: str) -> bool:
        return prediction == gold


class First(Last):
    """The first number."""

    name, version = "first", 1

    def predict(self, text: str) -> str | None:
        found = re.search(r"\d+", text)
        return found[0] if found else None


class Toy:
    """A task with two graders."""

    name = "toy"
    graders = {"first": First(), "last": Last()}  # noqa: RUF012


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(TASKS._entries, "toy", Toy)
    texts = {"4 or 5": "wrong", "5 or 4": "correct", "none": "wrong", "": "error:oom"}
    rng = random.Random(0)
    made = [item_record(k, outcome, rng, text=text) for k, (text, outcome) in enumerate(texts.items())]
    return write_log(tmp_path / "toy.jsonl", "dense", [], made=made, task="toy", grader={"name": "last", "version": 2})


def test_grading_appends_once_and_reports_agreement(toy: Path) -> None:
    made = run(grade, toy, "--grader", "first")
    assert "first v1: 4 items graded; 1 of 4 correct (25.0 %)" in made.stdout
    assert "agrees with the run's outcome on 2, differs on 2: q0, q1" in made.stdout
    log = read_log(toy)
    assert [(one.id, one.prediction, one.outcome) for one in log.grades] == [
        ("q0", "4", "correct"), ("q1", "5", "wrong"), ("q2", None, "wrong"), ("q3", None, "error:oom"),
    ]  # fmt: skip
    before = toy.read_bytes()
    again = run(grade, toy, "--grader", "first")
    assert "skipped, nothing new to grade (4 there already); 1 of 4 correct" in again.stdout
    assert toy.read_bytes() == before
    assert [item.outcome for item in log.items] == ["wrong", "correct", "wrong", "error:oom"]


def test_several_graders_live_in_one_log(toy: Path) -> None:
    run(grade, toy, "--grader", "first", "--grader", "last")
    assert {one.grader for one in read_log(toy).grades} == {"first", "last"}
    correct = {name: json.loads(run(stats, toy, "--grader", name, "--format", "json").stdout)[0]["correct"]
               for name in ("first", "last")}  # fmt: skip
    assert correct == {"first": 1, "last": 1}


def test_a_new_version_of_a_grader_grades_again(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(grade, toy, "--grader", "first")
    monkeypatch.setattr(First, "version", 2)
    assert "first v2: 4 items graded" in run(grade, toy, "--grader", "first").stdout


def test_half_made_gradings_are_completed(toy: Path) -> None:
    run(grade, toy, "--grader", "first")
    whole = toy.read_bytes()
    toy.write_bytes(whole[:-50])
    assert "1 items graded (3 there already)" in run(grade, toy, "--grader", "first").stdout
    assert toy.read_bytes() == whole


def test_graders_are_listed_without_writing(toy: Path) -> None:
    before = toy.read_bytes()
    made = run(grade, toy, "--list")
    assert made.stdout.splitlines()[1:] == ["  first v1", "  last v2: the run's own"]
    assert toy.read_bytes() == before


def test_nothing_is_graded_when_a_name_is_wrong(toy: Path, folder: Path) -> None:
    before = toy.read_bytes()
    with pytest.raises(UserError, match=r"unknown grader of task 'toy' 'firts' \(did you mean 'first'\?\)"):
        run(grade, toy, "--grader", "last", "--grader", "firts")
    with pytest.raises(UserError, match="--grader: none given"):
        run(grade, toy)
    assert toy.read_bytes() == before


def test_a_log_being_written_is_not_graded(toy: Path) -> None:
    with LogWriter(toy), pytest.raises(UserError, match="is being written by process"):
        run(grade, toy, "--grader", "first")


def test_grading_a_file_that_is_not_there_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        run(grade, tmp_path / "none.jsonl", "--grader", "first")
    assert list(tmp_path.iterdir()) == []
