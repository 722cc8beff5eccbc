"""What running an agent's program tells the others: the value of `answer`, or how a task's examples went."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrbench.errors import RunFailed
from bcrbench.grading.kit import Kit
from bcrbench.grading.sandbox import Evaluated
from bcrbench.runs.schema import Feedback
from bcrbench.tools import run
from bcrbench.tools.doctests import LONGEST, Doctests, Example, examples_of
from bcrbench.tools.program import MAX_CHARACTERS, Program

TASK = (
    "def double(x):\n    '''Twice x.\n    >>> double(2)\n    4\n    >>> double('a')  # text\n\n    'aa'\n"
    "    >>> double(0) == 0\n    '''\n"
)
RIGHT = "```python\ndef double(x):\n    return x * 2\n```"


@pytest.fixture(scope="module")
def kit() -> Kit:
    return Kit(code=True)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "SECONDS", 1)


def program(said: str, kit: Kit) -> Feedback:
    return Program().feedback(said, "q", kit)


def doctests(said: str, kit: Kit, task: str = TASK) -> Feedback:
    return Doctests().feedback(said, task, kit)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("answer = 6 * 7", "42"),
        ("def answer():\n    return 1.5", "1.5"),
        ("import math\ndef f():\n    return math.sqrt(16)\nanswer = f()", "4.0"),
        ("answer = 'x'\nprint('noise')", "'x'"),
        ("answer = object()", "<object object at 0x...>"),
    ],
)
def test_a_program_gives_the_value_of_answer(kit: Kit, code: str, text: str) -> None:
    assert program(f"```python\n{code}\n```", kit) == Feedback(tool="program", text=text, outcome="ok")


@pytest.mark.parametrize(
    ("code", "words", "outcome"),
    [
        ("total = 1", "NameError", "raised"),
        ("answer = 1 / 0", "ZeroDivisionError", "raised"),
        ("answer = lambda: 1 / 0", "ZeroDivisionError", "raised"),
        ("answer = ", "SyntaxError", "raised"),
        ("raise ValueError('x' * 10_000)", "ValueError: xxx", "raised"),
        ("import sys\nsys.exit(0)", "SystemExit", "raised"),
        ("import os\nos._exit(0)", "exited", "raised"),
    ],
)
def test_what_stands_in_the_way_is_told_on_one_line(kit: Kit, code: str, words: str, outcome: str) -> None:
    told = program(f"```python\n{code}\n```", kit)
    assert (told.outcome, words in told.text) == (outcome, True)
    assert len(told.text.splitlines()) == 1 and len(told.text) <= MAX_CHARACTERS


def test_no_program_is_said_and_nothing_runs() -> None:
    class Never(Kit):
        @property
        def sandbox(self) -> Any:  # type: ignore[override]
            raise AssertionError

    assert program("The answer is 5.", Never(code=True)).outcome == "no-code"
    assert doctests("Only words.", Never(code=True)).outcome == "no-code"
    assert doctests(RIGHT, Never(code=True), "def f(): ...\n").outcome == "no-tests"


def test_a_program_that_does_not_end_is_stopped_at_a_tools_limit(kit: Kit, quick: None) -> None:
    assert program("```python\nwhile True: pass\n```", kit).outcome == "error:timeout"
    told = doctests("```python\ndef double(x):\n    while True: pass\n```", kit)
    assert (told.outcome, told.text.startswith("False")) == ("error:timeout", True)


def test_tools_have_less_time_than_a_grading(kit: Kit) -> None:
    assert run.quick(kit).limits.wall_s < kit.sandbox.limits.wall_s
    assert run.quick(kit).level == kit.sandbox.level


def test_code_that_gives_every_examples_value_passes(kit: Kit) -> None:
    told = doctests(RIGHT, kit)
    assert (told.outcome, told.text.split(".")[0]) == ("ok", "True")
    assert "all 3" in told.text


def test_what_fails_is_named_with_the_value_it_gave(kit: Kit) -> None:
    told = doctests("```python\ndef double(x):\n    return x + x if x else 1 / x\n```", kit)
    assert told.outcome == "failed"
    assert told.text.startswith("False.\n\n") and "2 of 3" in told.text
    assert told.text.splitlines()[-1] == "double(0) == 0: ZeroDivisionError: division by zero, expected True"
    told = doctests("```python\ndef double(x):\n    return x\n```", kit)
    assert "double(2): gave 2, expected 4" in told.text
    assert "double('a')  # text: gave 'a', expected 'aa'" in told.text


def test_code_that_stops_before_the_examples_says_why(kit: Kit) -> None:
    told = doctests("```python\nimport nowhere\n```", kit)
    assert told.outcome == "raised"
    assert told.text.startswith("False.") and "ModuleNotFoundError" in told.text


def test_the_body_alone_and_the_tasks_helpers_will_do(kit: Kit) -> None:
    assert doctests("    return x * 2\n", kit).outcome == "ok"
    task = "def twice(x):\n    return x * 2\n\n" + TASK
    assert doctests("```python\ndef double(x):\n    return twice(x)\n```", kit, task).outcome == "ok"


def test_a_long_value_is_cut(kit: Kit) -> None:
    told = doctests("```python\ndef double(x):\n    return 'y' * 10**6\n```", kit)
    assert len(told.text) <= LONGEST


@pytest.mark.parametrize("tool", [Program(), Doctests()])
def test_a_failure_of_ours_stops_the_run_and_is_told_to_nobody(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake:
        def evaluate(self, *_: Any) -> Evaluated:
            return Evaluated("error:harness", "no child", (), 0.0, "")

        compare = evaluate

    monkeypatch.setattr(run, "quick", lambda kit: Fake())
    with pytest.raises(RunFailed, match=f"{tool.name}.*no child"):
        tool.feedback(RIGHT, TASK, Kit(code=True))


def test_examples_are_calls_with_the_value_that_follows() -> None:
    assert examples_of(TASK) == [
        Example("double(2)", "4"), Example("double('a')  # text", "'aa'"), Example("double(0) == 0", "True"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "lines",
    [[">>> f(1)", ">>> f(2)"], [">>> f(1)"], [">>> x = 1", "2"], [">>> f(1)", "not a value here"], [">>> f(", "1"],
     [">>> f(1) 2", "3"], ["f(1)", "2"], [">>> f(1)", '"""'], [">>>", "1"]],
)  # fmt: skip
def test_what_is_no_example_is_left_out(lines: list[str]) -> None:
    assert examples_of("\n".join(lines)) == []


@given(st.lists(st.one_of(st.text(), st.sampled_from([">>> f(1)", ">>> f(1) == 2", "3", ">>> (" * 50])), max_size=6))
def test_any_task_has_examples_of_expressions(lines: list[str]) -> None:
    for example in examples_of("\n".join(lines)):
        compile(example.call, "", "eval")
        compile(example.expected, "", "eval")


@given(st.text(), st.integers(4, 50))
def test_what_is_shown_is_bounded(text: str, longest: int) -> None:
    assert len(run.shown(text, longest)) <= longest
