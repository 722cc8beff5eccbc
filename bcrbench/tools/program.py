"""The tool `program`: runs an agent's Python and tells what its variable `answer` holds (kvcomm.md 3.1)."""

from __future__ import annotations

from typing import ClassVar

from bcrbench.grading.code_block import code_block
from bcrbench.grading.kit import Kit
from bcrbench.runs.schema import Feedback
from bcrbench.tools import run
from bcrbench.tools.base import Need

VARIABLE = "answer"
MAX_CHARACTERS = 400


class Program:
    """Runs the program of a response: its last block of Python, or all of it when it has no block but is code."""

    name: ClassVar[str] = "program"
    needs: ClassVar[Need] = "code"

    def feedback(self, said: str, question: str, kit: Kit) -> Feedback:
        """The value of `answer`, called when it can be, or the error that stands in its way."""
        code = code_block(said)
        if code is None:
            return self._told("there was no program to run", "no-code")
        ran = run.quick(kit).evaluate(code, [VARIABLE])
        run.check(self.name, ran)
        if ran.outcome == "failed":
            return self._told(ran.reason, "raised")
        if ran.outcome != "ran":
            return self._told(ran.reason, ran.outcome)
        value = ran.values[0]
        return self._told(value.text, "ok") if value.ok else self._told(value.error, "raised")

    def _told(self, text: str, outcome: str) -> Feedback:
        return Feedback(tool=self.name, text=run.shown(text, MAX_CHARACTERS) or "nothing", outcome=outcome)
