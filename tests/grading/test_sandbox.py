"""Verdicts, values and limits of the sandbox, whatever its level."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from bcrbench.errors import UserError
from bcrbench.grading.sandbox import Limits, Sandbox, folders, open_sandbox
from bcrbench.grading.sandbox import sandbox as parent

ADD = "def add(a, b=1):\n    return a + b\n"


def check(*lines: str) -> str:
    return "\n    ".join(["def check(candidate):", *lines]) + "\n"


def outcome(sandbox: Sandbox, program: str, *lines: str, helpers: str = "", name: str = "add") -> str:
    return sandbox.judge(program, check(*lines), name, helpers).outcome


def test_right_and_wrong(sandbox: Sandbox) -> None:
    assert outcome(sandbox, ADD, "assert candidate(1, 2) == 3", "assert candidate(1, b=2) == 3") == "correct"
    result = sandbox.judge(ADD, check("assert candidate(1, 2) == 4, 'no'"), "add")
    assert (result.outcome, result.reason) == ("wrong", "AssertionError: no in: assert candidate(1, 2) == 4, 'no'")


def test_level_is_told(sandbox: Sandbox) -> None:
    assert sandbox.told.startswith(f"{sandbox.level}: ") and "\n" not in sandbox.told


def test_tests_may_use_the_name_and_helpers(any_sandbox: Sandbox) -> None:
    lines = ("assert candidate(twice(2), 0) == add(2, 2)",)
    assert outcome(any_sandbox, ADD, *lines, helpers="def twice(n):\n    return 2 * n\n") == "correct"


def test_helpers_are_the_trusted_ones(any_sandbox: Sandbox) -> None:
    program = f"{ADD}\ndef twice(n):\n    return 0\n"
    lines = ("assert candidate(twice(2), 0) == 4",)
    assert outcome(any_sandbox, program, *lines, helpers="def twice(n):\n    return 2 * n\n") == "correct"


def test_changed_arguments_come_back(any_sandbox: Sandbox) -> None:
    program = "def add(a, k):\n    a[0].append(1); k['x'].add(2); a[1].clear(); return None\n"
    lines = ("a, k = [[], {1: 1}], {'x': set()}", "inner = a[0]", "candidate(a, k=k)")
    assert outcome(any_sandbox, program, *lines, "assert (a, k, inner) == ([[1], {}], {'x': {2}}, [1])") == "correct"


@pytest.mark.parametrize(
    ("raised", "caught"),
    [("ValueError('v')", "ValueError"), ("KeyError(1)", "LookupError"), ("SystemExit", "SystemExit")],
)
def test_exceptions_reach_the_tests(any_sandbox: Sandbox, raised: str, caught: str) -> None:
    program = f"def add():\n    raise {raised}"
    lines = ("try:", "    candidate()", f"except {caught}:", "    return", "assert False")
    assert outcome(any_sandbox, program, *lines) == "correct"
    assert any_sandbox.judge(program, check("candidate()"), "add").reason.startswith(raised[:8])


def test_tests_that_catch_all_do_not_hide_an_exit(any_sandbox: Sandbox) -> None:
    lines = ("try:", "    candidate()", "except BaseException:", "    pass")
    assert outcome(any_sandbox, "import os\ndef add(): os._exit(0)", *lines) == "wrong"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("def add(:", "SyntaxError: invalid syntax"),
        ("", "NameError: name 'add' is not defined"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("add = 3", "TypeError: 'int' object is not callable"),
        ("def add(): pass", "TypeError: add() takes 0 positional arguments"),
        ("\0", ""),
        ("'\ud800'", "UnicodeEncodeError"),
        ("def add(*a):\n    return input()", "EOFError"),
    ],
)
def test_programs_that_fail_are_wrong(any_sandbox: Sandbox, program: str, reason: str) -> None:
    result = any_sandbox.judge(program, check("assert candidate(1) == 2"), "add")
    assert result.outcome == "wrong" and result.reason.startswith(reason)


@pytest.mark.parametrize("tests", ["def check(", "x = 1", check("missing(candidate)"), check("import not_there")])
def test_broken_tests_are_ours(any_sandbox: Sandbox, tests: str) -> None:
    assert any_sandbox.judge(ADD, tests, "add").outcome == "error:harness"


def test_arguments_that_cannot_be_sent_are_ours(any_sandbox: Sandbox) -> None:
    assert outcome(any_sandbox, ADD, "candidate(len)") == "error:harness"


def test_tester_that_dies_is_ours(any_sandbox: Sandbox) -> None:
    assert outcome(any_sandbox, ADD, "import os; os._exit(0)") == "error:harness"


def test_tests_without_end_run_out_of_time(any_sandbox: Sandbox) -> None:
    assert outcome(any_sandbox, ADD, "while True: pass") == "error:timeout"


def test_tester_is_limited_too(any_sandbox: Sandbox) -> None:
    assert outcome(any_sandbox, ADD, "bytearray(2 * 2**30)") == "error:memory"


def test_verdict_without_the_secret_is_ours(any_sandbox: Sandbox) -> None:
    lines = (
        "import os",
        "for fd in range(3, 64):",
        "    try:",
        '        os.write(fd, b\'{"secret": "0", "outcome": "correct", "reason": ""}\')',
        "    except OSError:",
        "        pass",
        "os._exit(0)",
    )
    assert outcome(any_sandbox, ADD, *lines) == "error:harness"


def test_child_that_cannot_start_is_ours(any_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert outcome(any_sandbox, ADD, "pass") == "error:harness"
    assert any_sandbox.evaluate(ADD, ["add(1)"]).outcome == "error:harness"


def test_child_that_does_not_speak_is_ours(any_sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/true")
    assert outcome(Sandbox("process", ""), ADD, "pass") == "error:harness"


def test_many_at_once_are_not_mixed_up(any_sandbox: Sandbox) -> None:
    def one(n: int) -> str:
        return outcome(any_sandbox, f"def add():\n    return {n}", f"assert candidate() == {n - n % 2}")

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(16))) == ["correct", "wrong"] * 8


def test_values(any_sandbox: Sandbox) -> None:
    program = f"{ADD}print('said')\nanswer = 6 * 7\ndef solve():\n    return {{1: 'a'}}\n"
    done = any_sandbox.evaluate(program, ["answer", "solve", "add(2, 3)", "missing", "1 +", "' ' * 10**5"])
    assert (done.outcome, done.output) == ("ran", "said\n")
    assert [value.text for value in done.values[:3]] == ["42", "{1: 'a'}", "5"]
    assert [value.ok for value in done.values] == [True] * 3 + [False] * 2 + [True]
    assert done.values[3].error == "NameError: name 'missing' is not defined"
    assert done.values[4].error.startswith("SyntaxError")
    assert len(done.values[5].text) < 10**4


def test_values_of_a_program_that_fails(any_sandbox: Sandbox) -> None:
    done = any_sandbox.evaluate("print('said')\n1 / 0", ["x"])
    assert (done.outcome, done.reason, done.output) == ("failed", "ZeroDivisionError: division by zero", "said\n")
    assert [(value.ok, value.error) for value in done.values] == [(False, "not reached")]


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("while True: pass", "error:timeout"),
        ("import os; os._exit(3)", "failed"),
        ("bytearray(10**10)", "error:memory"),
    ],
)
def test_values_before_the_end_are_kept(any_sandbox: Sandbox, last: str, expected: str) -> None:
    done = any_sandbox.evaluate(f"def end():\n    {last}\n", ["1 + 1", "end()"])
    assert done.outcome == expected and done.reason
    assert [value.text for value in done.values] == ["2", ""]


def test_compare(any_sandbox: Sandbox) -> None:
    pairs = [("add(1, 2)", "3"), ("add(1, 2)", "4"), ("add()", "3"), ("add(0.5, 0.5)", "1"), ("[]", "not python")]
    done = any_sandbox.compare(ADD, pairs)
    assert [value.equal for value in done.values] == [True, False, False, True, False]
    assert [value.ok for value in done.values] == [True, True, False, True, False]


def test_what_a_program_says_can_be_logged(any_sandbox: Sandbox) -> None:
    said = "'\\ud800\\x1b[2J'"
    program = (
        f"class R:\n    __slots__ = ()\n    def __repr__(self): return {said}\ndef add(): raise ValueError({said})\n"
    )
    done = any_sandbox.evaluate(program, ["R()", "add()"])
    reason = any_sandbox.judge(program, check("candidate()"), "add").reason
    for text in (done.values[0].text, done.values[1].error, reason):
        assert "\\ud800" in text.encode().decode()
    assert reason.isprintable()


def test_main_block_does_not_run(any_sandbox: Sandbox) -> None:
    done = any_sandbox.evaluate("x = 1\nif __name__ == '__main__':\n    x = 2\n", ["x"])
    assert done.values[0].text == "1"


def test_classes_of_the_program_work(any_sandbox: Sandbox) -> None:
    program = """
from __future__ import annotations
import dataclasses, pickle, typing
@dataclasses.dataclass
class P:
    x: typing.ClassVar[int] = 3
    y: int = 4
def add():
    return [pickle.loads(pickle.dumps(P())).y, repr(P())]
"""
    assert outcome(any_sandbox, program, "assert candidate() == [4, 'P(y=4)']") == "correct"


@pytest.mark.parametrize("field", ["wall_s", "cpu_s", "memory_mb", "processes", "file_mb", "open_files", "output_kb"])
@pytest.mark.parametrize("value", [0, -1, 2**30, float("nan"), "x", None, True])
def test_limits_that_are_none(field: str, value: object) -> None:
    with pytest.raises(UserError, match=field):
        Limits(**{field: value})


def test_unknown_level() -> None:
    with pytest.raises(UserError, match="did you mean 'process'"):
        open_sandbox(level="proces")  # type: ignore[arg-type]


def test_level_that_does_not_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandbox, "evaluate", lambda *_: parent._unstarted("no room", 3))
    with pytest.raises(UserError, match="process: no room"):
        open_sandbox()


@pytest.mark.parametrize("name", ["TemporaryDirectory", "TemporaryFile", "mkdtemp"])
def test_a_full_disk_is_told_and_is_no_verdict(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, name, full)
    with pytest.raises(UserError, match="process: .*No space left on device"):
        open_sandbox()
    judged = Sandbox("process", "").judge("def f(x):\n    return 2", "def check(c): assert c(1) == 2", "f")
    assert judged.outcome == ("correct" if name == "TemporaryDirectory" else "error:harness")


def test_import_is_light_and_runs_nothing() -> None:
    code = "import bcrbench.grading.sandbox, sys; print(int('subprocess' in sys.modules or 'torch' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


@pytest.mark.parametrize("source", ["-" * 50_000 + "1", "(" * 5_000, "def add(:", "\0", "x = '"])
def test_source_that_does_not_parse_is_wrong_whatever_the_parser_says(any_sandbox: Sandbox, source: str) -> None:
    assert outcome(any_sandbox, source, "assert candidate(1) == 2") == "wrong"


def test_an_empty_folder_goes_where_no_file_can_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: str) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(folders, "_clear", refuse)
    with folders.empty_folder() as folder:
        pass
    assert not os.path.exists(folder)
