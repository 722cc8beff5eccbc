"""How far graders agree on the same answers: each one's accuracy, and for every pair the fourfold table.

Agreement beyond chance is Cohen's kappa (Educational and Psychological Measurement 20 (1960) 37-46), as statsmodels
computes it. Every answer counts once: the same item answered under several conditions gives several answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from bcrbench.grading.kit import Kit
from bcrbench.grading.regrade import grade_item, graders_of
from bcrbench.grading.verdict import needs_model, runs_code
from bcrbench.runs.log import Log
from bcrbench.runs.schema import GradeRecord, ItemRecord

Row = dict[str, Any]
Answer = tuple[int, str]  # position of the log, id of the item


@dataclass(frozen=True)
class Agreement:
    """The graders of one task's logs: a row a grader, and a row a pair of graders."""

    task: str
    logs: int
    answers: int
    graders: list[Row]
    pairs: list[Row]


def agreements(logs: Sequence[Log[ItemRecord]]) -> list[Agreement]:
    """One comparison a task, its logs' answers taken together. Raises UserError for a task that is not known here.

    Graders that need neither the model nor a run grade here and now; of the others, and of older versions, the
    gradings that are in the logs are taken. What ended in an error or is ungraded counts for no grader.
    """
    tasks = dict.fromkeys(log.run.task for log in logs)
    return [_compare(task, [log for log in logs if log.run.task == task]) for task in tasks]


def _compare(task: str, logs: Sequence[Log[ItemRecord]]) -> Agreement:
    found: dict[str, dict[Answer, GradeRecord]] = {}
    for number, log in enumerate(logs):
        for grade in [*_made_now(log), *_in_log(log)]:
            found.setdefault(f"{grade.grader} v{grade.grader_version}", {})[number, grade.id] = grade
    graded = {name: _settled(grades) for name, grades in found.items()}
    verdicts = {name: {key: grade.outcome == "correct" for key, grade in graded[name].items()} for name in graded}
    return Agreement(
        task=task,
        logs=len(logs),
        answers=sum(len(log.items) for log in logs),
        graders=[grader_row(name, list(grades.values())) for name, grades in graded.items()],
        pairs=[pair_row(*pair, verdicts[pair[0]], verdicts[pair[1]]) for pair in combinations(verdicts, 2)],
    )


def _made_now(log: Log[ItemRecord]) -> Iterator[GradeRecord]:
    """Gradings by every grader of the task that needs the text alone."""
    kit = Kit()
    for name, grader in graders_of(log).items():
        if not needs_model(grader) and not runs_code(grader):
            yield from (grade_item(grader, name, item, kit) for item in log.items)


def _in_log(log: Log[ItemRecord]) -> Iterator[GradeRecord]:
    """The run's own gradings, then those that were appended; of one grader on one item the last counts."""
    name, version = log.run.grader.get("name"), log.run.grader.get("version")
    for item in log.items:
        yield GradeRecord(
            id=item.id,
            grader=str(name),
            grader_version=int(version or 0),
            prediction=item.prediction,
            outcome=item.outcome,
        )
    known = {item.id for item in log.items}
    yield from (grade for grade in log.grades if grade.id in known)


def _settled(grades: Mapping[Answer, GradeRecord]) -> dict[Answer, GradeRecord]:
    return {key: grade for key, grade in grades.items() if grade.outcome in ("correct", "wrong")}


def grader_row(name: str, grades: Sequence[GradeRecord]) -> Row:
    """A grader's answers: graded (`n`), with a prediction, correct; the accuracy is None when there are none."""
    correct = sum(grade.outcome == "correct" for grade in grades)
    return {
        "grader": name,
        "n": len(grades),
        "predicted": sum(grade.prediction is not None for grade in grades),
        "correct": correct,
        "accuracy": correct / len(grades) if grades else None,
    }


def pair_row(first: str, second: str, one: Mapping[Any, bool], other: Mapping[Any, bool]) -> Row:
    """Two graders on the answers that both graded; `agreement` is the share with one verdict, None without answers."""
    verdicts = [(one[key], other[key]) for key in one if key in other]
    both, only_first, only_second, neither = (
        verdicts.count(cell) for cell in [(True, True), (True, False), (False, True), (False, False)]
    )
    return {
        "first": first,
        "second": second,
        "n": len(verdicts),
        "both": both,
        "only_first": only_first,
        "only_second": only_second,
        "neither": neither,
        "agreement": (both + neither) / len(verdicts) if verdicts else None,
        "kappa": kappa(both, only_first, only_second, neither),
    }


def kappa(both: int, only_first: int, only_second: int, neither: int) -> float | None:
    """Cohen's kappa of a fourfold table; None where it is not defined: all answers in `both`, or all in `neither`."""
    if both + only_first + only_second + neither in (both, neither):
        return None
    from statsmodels.stats.inter_rater import cohens_kappa

    return float(cohens_kappa([[both, only_first], [only_second, neither]], return_results=False))
