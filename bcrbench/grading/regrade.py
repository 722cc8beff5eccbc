"""Grading a finished log with another grader: texts in, grade records out, no model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bcrbench.errors import RunFailed, UserError, unknown
from bcrbench.grading.kit import Kit
from bcrbench.grading.verdict import HARNESS, needs_model, runs_code, verdict
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


def check_means(log: Log[ItemRecord], name: str, kit: Kit) -> None:
    """Raise UserError when the grader needs what the kit does not have."""
    grader = find_grader(log, name)
    if runs_code(grader) and not kit.code:
        raise UserError(f"--grader {name}: runs the graded programs, expected --allow-code-execution with it")
    if needs_model(grader) and kit.ask is None:
        raise UserError(f"--grader {name}: asks the model, expected a run with it (bcrbench reuse --grader {name} ...)")


def regrade(path: Path, name: str, kit: Kit | None = None) -> Regrading:
    """Append the grades that the log lacks from this grader, under its write lock.

    Raises UserError for a log that cannot be read or is being written, for an unknown grader and for one that needs
    more than the kit has; RunFailed when grading itself failed, after the grades that were made are in the log.
    """
    kit = kit or Kit()
    with LogWriter(path) as writer:
        log = read_log(path)
        check_means(log, name, kit)
        grader = find_grader(log, name)
        there = {
            grade.id: grade for grade in log.grades if (grade.grader, grade.grader_version) == (name, grader.version)
        }
        made = _grade_all(grader, name, [item for item in log.items if item.id not in there], kit)
        new = [grade for grade in made if grade.outcome != HARNESS]  # ours to mend, so still owed
        if new:
            writer.extend(new)
    _check_harness(path, name, made)
    outcomes = {grade.id: grade.outcome for grade in (*there.values(), *new)}
    return Regrading(
        grader=name,
        version=grader.version,
        items=len(log.items),
        added=len(new),
        correct=sum(outcomes[item.id] == "correct" for item in log.items),
        differ=[item.id for item in log.items if outcomes[item.id] != item.outcome],
    )


def _check_harness(path: Path, name: str, made: list[GradeRecord]) -> None:
    failed = [grade for grade in made if grade.outcome == HARNESS]
    if failed:
        raise RunFailed(
            f"{path}: {name} failed on {len(failed)} of {len(made)} items, which stay ungraded "
            f"(first: {failed[0].id}: {failed[0].reason})"
        )


def _grade_all(grader: Grader, name: str, items: list[ItemRecord], kit: Kit) -> list[GradeRecord]:
    """Grade items in order; those that run programs on all cores, each in processes of its own."""
    if not runs_code(grader):
        return [grade_item(grader, name, item, kit) for item in items]
    _ = kit.sandbox  # opened once, before the threads
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda item: grade_item(grader, name, item, kit), items))


def grade_item(grader: Grader, name: str, item: ItemRecord, kit: Kit) -> GradeRecord:
    """Grade one item's text. An item that could not be run has none, and keeps its error."""
    ran = not item.outcome.startswith("error:") or runs_code(grader)
    if not ran:
        return GradeRecord(
            id=item.id, grader=name, grader_version=grader.version, prediction=None, outcome=item.outcome
        )
    found = verdict(grader, item.text, item.gold, kit)
    return GradeRecord(
        id=item.id,
        grader=name,
        grader_version=grader.version,
        prediction=found.prediction,
        outcome=found.outcome,
        reason=found.reason,
    )
