"""The grader of tasks that measure times: there is no right answer."""

from __future__ import annotations

from bcrbench.grading.kit import Kit
from bcrbench.grading.verdict import UNGRADED, Verdict


class Nothing:
    """Leaves every answer ungraded."""

    name = "none"
    version = 1

    def predict(self, text: str) -> str | None:
        """Nothing is looked for."""
        return None

    def correct(self, prediction: str | None, gold: str) -> bool:
        """Nothing is correct."""
        return False

    def judge(self, text: str, gold: str, kit: Kit) -> Verdict:
        """Ungraded, always."""
        return Verdict(None, UNGRADED, "no answer is right or wrong in this task")
