"""From a text to a verdict: by pattern, by running it, or by asking the model (decisions 11-13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from bcrbench.grading.kit import Kit
from bcrbench.tasks.base import Grader

UNGRADED = "ungraded"
HARNESS = "error:harness"  # ours, never the answer's


@dataclass(frozen=True)
class Verdict:
    """What a grader found and how it counts; `reason` where it tells one."""

    prediction: str | None
    outcome: str
    reason: str | None = None


@runtime_checkable
class Judge(Protocol):
    """A grader whose verdict takes more than an extracted answer: a run in the sandbox, or the model."""

    def judge(self, text: str, gold: str, kit: Kit) -> Verdict:
        """The verdict on a text; `ungraded` when the kit lacks what it takes."""


def verdict(grader: Grader, text: str, gold: str, kit: Kit) -> Verdict:
    """Grade a text against the gold answer."""
    if isinstance(grader, Judge):
        return grader.judge(text, gold, kit)
    prediction = grader.predict(text)
    return Verdict(prediction, "correct" if grader.correct(prediction, gold) else "wrong")


def runs_code(grader: Grader) -> bool:
    """Whether the grader runs what it grades."""
    return bool(getattr(grader, "runs_code", False))


def needs_model(grader: Grader) -> bool:
    """Whether the grader asks the model."""
    return bool(getattr(grader, "needs_model", False))
