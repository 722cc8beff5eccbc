"""The grader `tests`: from an answer to a program and its verdict, offline from what a log holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bcrbench.errors import UserError
from bcrbench.grading.kit import Kit
from bcrbench.grading.programs import PRELUDE, entry_of, program_of
from bcrbench.grading.sandbox import Judged, Sandbox
from bcrbench.grading.unit_tests import Gold, UnitTests
from bcrbench.grading.verdict import verdict

TASK = (
    "from typing import List\nimport math\n\n\ndef half(x):\n    return x / 2\n\n\n"
    'def total(xs: List[int]) -> float:\n    """Half the sum, rounded up.\n    >>> total([1, 2])\n    2\n    """\n'
)
TEST = "def check(candidate):\n    assert candidate([1, 2]) == 2\n    assert candidate([]) == 0\n"
GOLD = Gold(entry_point="total", prompt=TASK, test=TEST).text()
BODY = "    return math.ceil(half(sum(xs)))\n"
RIGHT = "def total(xs: List[int]) -> float:\n" + BODY


@pytest.fixture
def kit(any_sandbox: Sandbox) -> Kit:
    made = Kit(code=True)
    made.__dict__["sandbox"] = any_sandbox  # with short limits
    return made


def fenced(code: str) -> str:
    return f"Here:\n\n```python\n{code}```\nDone."


@pytest.mark.parametrize(
    "text",
    [
        fenced(RIGHT),
        fenced(TASK + BODY),
        fenced(BODY),
        BODY,
        RIGHT,
        fenced("import math\n" + RIGHT),
        fenced("from __future__ import annotations\n" + RIGHT),
        fenced("total = lambda xs: math.ceil(half(sum(xs)))\n"),
        fenced("def half(x):\n    return x * 0.5\n\n" + RIGHT),
        f"```python\n    {RIGHT.rstrip().replace(chr(10), chr(10) + '    ')}\n```",
        fenced(RIGHT + "\nif __name__ == '__main__':\n    total(None)\n"),
    ],
)  # fmt: skip
def test_right_code_is_correct_in_every_form(kit: Kit, text: str) -> None:
    found = verdict(UnitTests(), text, GOLD, kit)
    assert (found.outcome, found.reason) == ("correct", None)
    assert found.prediction is not None and "return" in found.prediction or "lambda" in str(found.prediction)


@pytest.mark.parametrize(
    ("text", "outcome", "reason"),
    [
        (fenced(RIGHT.replace("ceil", "floor")), "wrong", "AssertionError"),
        (fenced("def other(xs):\n    return 2\n"), "wrong", ""),
        (fenced("def total(xs:\n"), "wrong", "SyntaxError"),
        (fenced("while True:\n    pass\n" + RIGHT), "error:timeout", ""),
        (fenced("def total(xs):\n    return [0] * 10**10\n"), "error:memory", ""),
        ("I cannot write that.", "wrong", "no-code"),
        ("", "wrong", "no-code"),
    ],
)
def test_what_is_not_right_has_its_own_outcome_and_a_reason_of_one_line(
    kit: Kit, text: str, outcome: str, reason: str
) -> None:
    found = verdict(UnitTests(), text, GOLD, kit)
    assert found.outcome == outcome
    assert found.reason and reason in found.reason and "\n" not in found.reason


def test_without_leave_nothing_runs_and_only_missing_code_is_graded() -> None:
    assert verdict(UnitTests(), fenced(RIGHT), GOLD, Kit()).outcome == "ungraded"
    assert verdict(UnitTests(), "no", GOLD, Kit()).reason == "no-code"


def test_the_sandbox_is_given_the_task_as_helpers_and_its_word_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    class Fake:
        def judge(self, program: str, tests: str, entry_point: str, helpers: str) -> Judged:
            asked.append((program, tests, entry_point, helpers))
            return Judged("error:harness", "ours", 0.0, "")

    monkeypatch.setattr(Kit, "sandbox", Fake())
    found = verdict(UnitTests(), fenced(RIGHT), GOLD, Kit(code=True))
    assert (found.outcome, found.reason) == ("error:harness", "ours")
    assert asked == [(program_of(RIGHT, TASK, "total"), TEST, "total", TASK)]


@pytest.mark.parametrize("gold", ["", "[]", "{}", '{"prompt": "p", "test": "t", "entry_point": 1}'])
def test_a_gold_answer_of_another_kind_is_refused(gold: str) -> None:
    with pytest.raises(UserError, match="gold answer"):
        verdict(UnitTests(), fenced(RIGHT), gold, Kit(code=True))


def test_the_gold_answer_is_canonical_json() -> None:
    assert json.dumps(json.loads(GOLD), sort_keys=True, separators=(",", ":")) == GOLD
    assert set(json.loads(GOLD)) == {"entry_point", "prompt", "test"}


def test_the_head_of_the_task_stands_before_code_that_defines_the_function() -> None:
    program = program_of(RIGHT, TASK, "total")
    assert program == PRELUDE + TASK[: TASK.index("def total")] + RIGHT
    assert program_of(BODY, TASK, "total") == PRELUDE + TASK + BODY
    assert program_of("x = 1\n", "no function here\n", "f") == PRELUDE + "x = 1\n"


@pytest.mark.parametrize(
    "code", ["    total = 0\n", "    total == 2\n", "    def total_of(x): ...\n", "    return 1\n\n\ntotal(2)\n"]
)
def test_a_body_stays_one_whatever_it_calls_its_variables(code: str) -> None:
    assert program_of(code, TASK, "total") == PRELUDE + TASK + code


def test_the_last_function_of_a_task_is_asked_for() -> None:
    assert (entry_of(TASK), entry_of("words"), entry_of("async def f(): ...")) == ("total", None, "f")
