"""The grader `tests`: runs an answer's code against the task's unit tests, in the sandbox (decision 13; kvcomm.md 4).

The gold answer holds all that grading takes, so that a log can be graded without the task's data.
"""

from __future__ import annotations

import msgspec

from bcrbench.errors import UserError
from bcrbench.grading.code_block import code_block
from bcrbench.grading.kit import Kit
from bcrbench.grading.programs import program_of
from bcrbench.grading.verdict import UNGRADED, Verdict

NO_CODE = "no-code"
NOT_RUN = "not run: grade with --allow-code-execution"


class Gold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task's text, its test code, which defines check(candidate), and the function that is tested."""

    entry_point: str
    prompt: str
    test: str

    def text(self) -> str:
        """Canonical JSON, keys sorted."""
        return msgspec.json.encode(self).decode()


class UnitTests:
    """Correct when `check` returns; wrong with reason `no-code` when the answer holds no code."""

    name = "tests"
    version = 1
    runs_code = True

    def predict(self, text: str) -> str | None:
        """The code of an answer, as it is run; None when there is none."""
        return code_block(text)

    def correct(self, prediction: str | None, gold: str) -> bool:
        """Never: without running it, no code is known to be right."""
        return False

    def judge(self, text: str, gold: str, kit: Kit) -> Verdict:
        """Run the answer's code; `ungraded` where running code was not allowed.

        Raises UserError for a gold answer that is not this grader's.
        """
        code = self.predict(text)
        if code is None:
            return Verdict(None, "wrong", NO_CODE)
        if not kit.code:
            return Verdict(code, UNGRADED, NOT_RUN)
        wanted = _read(gold)
        program = program_of(code, wanted.prompt, wanted.entry_point)
        judged = kit.sandbox.judge(program, wanted.test, wanted.entry_point, helpers=wanted.prompt)
        return Verdict(code, judged.outcome, judged.reason or None)


def _read(gold: str) -> Gold:
    try:
        return msgspec.json.decode(gold, type=Gold)
    except msgspec.DecodeError as error:
        raise UserError(f"grader 'tests': gold answer: {error}, expected prompt, test and entry_point") from error
