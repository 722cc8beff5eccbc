"""The tool `doctests`: runs an agent's code on the examples that stand in its task (HumanEval; kvcomm.md 3.3).

An example is a line that starts with >>> and the value on the next line that is not blank. Where no value follows, the
line itself may be the comparison, as in `>>> f(2) == 4`. Examples that are no expressions are left out.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bcrbench.grading.code_block import code_block
from bcrbench.grading.kit import Kit
from bcrbench.grading.programs import entry_of, program_of
from bcrbench.runs.schema import Feedback
from bcrbench.tools import run
from bcrbench.tools.base import Need

if TYPE_CHECKING:
    from bcrbench.grading.sandbox import Value

PROMPT = ">>>"
LONGEST_VALUE = 200  # characters
LONGEST_CALL = 300
LONGEST = 1500


@dataclass(frozen=True)
class Example:
    """A call and the value that it should have, both Python expressions."""

    call: str
    expected: str


class Doctests:
    """Tells whether every example of the task gives its value, and for each other one what came instead."""

    name: ClassVar[str] = "doctests"
    needs: ClassVar[Need] = "code"

    def feedback(self, said: str, question: str, kit: Kit) -> Feedback:
        """Yes or no, then how the examples went; that nothing was tested where there is no code or no example."""
        code = code_block(said)
        if code is None:
            return self._told("False", "The response holds no code.", "no-code")
        examples = examples_of(question)
        if not examples:
            return self._told("Not tested", "The task gives no examples.", "no-tests")
        program = program_of(code, question, entry_of(question) or "")
        ran = run.quick(kit).compare(program, [(example.call, example.expected) for example in examples])
        run.check(self.name, ran)
        if ran.outcome == "failed":
            return self._told("False", f"The code failed: {ran.reason}", "raised")
        if ran.outcome != "ran":
            return self._told("False", f"The code was stopped: {ran.reason}", ran.outcome)
        return self._counted(examples, ran.values)

    def _counted(self, examples: list[Example], values: tuple[Value, ...]) -> Feedback:
        failed = [_line(*pair) for pair in zip(examples, values, strict=True) if not pair[1].equal]
        if not failed:
            return self._told("True", f"Examples that give the expected value: all {len(examples)}.", "ok")
        first = f"Examples that give the expected value: {len(examples) - len(failed)} of {len(examples)}. The others:"
        return self._told("False", "\n".join([first, *failed]), "failed")

    def _told(self, passes: str, text: str, outcome: str) -> Feedback:
        told = run.shown(f"{passes}.\n\n{text}", LONGEST)
        return Feedback(tool=self.name, text=told, outcome=outcome)


def _line(example: Example, value: Value) -> str:
    came = f"gave {value.text}" if value.ok else value.error
    parts = (
        run.shown(example.call, LONGEST_CALL),
        run.shown(came, LONGEST_VALUE),
        run.shown(example.expected, LONGEST_VALUE),
    )
    return "{}: {}, expected {}".format(*parts)


def examples_of(task: str) -> list[Example]:
    """The examples of a task, in order."""
    lines = [line.strip() for line in task.split("\n") if line.strip()]
    found = []
    for line, after in zip(lines, [*lines[1:], ""]):
        if line.startswith(PROMPT):
            found += _example(line.removeprefix(PROMPT).strip(), after)
    return found


def _example(call: str, after: str) -> list[Example]:
    if _parsed(call) is None:
        return []
    if not after.startswith(PROMPT) and _parsed(after) is not None:
        return [Example(call, after)]
    return [Example(call, "True")] if isinstance(_parsed(call), ast.Compare) else []


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
