"""Grading a finished log with another grader: texts in, grade records out, no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bcrbench.errors import unknown
from bcrbench.runs.log import Log, LogWriter, read_log
from bcrbench.runs.schema import GradeRecord, ItemRecord
from bcrbench.tasks import TASKS
from bcrbench.tasks.base import Grader


@dataclass(frozen=True)
class Regrading:
    """What one grader says of a log, old grades and new, and how that compares with the run's own outcomes."""

    grader: str
    version: int
    items: int
    added: int
    correct: int
    differ: list[str]  # ids whose outcome is another than the run's


def graders_of(log: Log[ItemRecord]) -> Mapping[str, Grader]:
    """The graders of a log's task. Raises UserError for a task that is not known here."""
    return TASKS.get(log.run.task)().graders


def find_grader(log: Log[ItemRecord], name: str) -> Grader:
    """A grader by name. Raises UserError with the nearest match for one that the log's task does not have."""
    graders = graders_of(log)
    if name not in graders:
        raise unknown(f"grader of task {log.run.task!r}", name, graders)
    return graders[name]


def regrade(path: Path, name: str) -> Regrading:
    """Append the grades that the log lacks from this grader, under its write lock.

    Raises UserError for a log that cannot be read or is being written, and for an unknown grader.
    """
    with LogWriter(path) as writer:
        log = read_log(path)
        grader = find_grader(log, name)
        there = {
            grade.id: grade for grade in log.grades if (grade.grader, grade.grader_version) == (name, grader.version)
        }
        new = [grade_item(grader, name, item) for item in log.items if item.id not in there]
        if new:
            writer.extend(new)
    outcomes = {grade.id: grade.outcome for grade in (*there.values(), *new)}
    return Regrading(
        grader=name,
        version=grader.version,
        items=len(log.items),
        added=len(new),
        correct=sum(outcomes[item.id] == "correct" for item in log.items),
        differ=[item.id for item in log.items if outcomes[item.id] != item.outcome],
    )


def grade_item(grader: Grader, name: str, item: ItemRecord) -> GradeRecord:
    """Grade one item's text. An item that ended in an error has none, and keeps its error."""
    if item.outcome.startswith("error:"):
        return GradeRecord(
            id=item.id, grader=name, grader_version=grader.version, prediction=None, outcome=item.outcome
        )
    prediction = grader.predict(item.text)
    outcome = "correct" if grader.correct(prediction, item.gold) else "wrong"
    return GradeRecord(id=item.id, grader=name, grader_version=grader.version, prediction=prediction, outcome=outcome)
