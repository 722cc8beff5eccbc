"""From the code of an answer to the program that is run, for tasks that give the head of a function (HumanEval).

The release runs `from typing import *` and the code. Here the task's own head comes in between: its imports and helper
functions, on which an answer may rely (HumanEval/10, 32, 38 and 50 have helpers). Code that is only the function's
body, and so begins indented, is put behind the whole task, as a completion.
"""

from __future__ import annotations

import re
import textwrap

PRELUDE = "from typing import *\n"
_FUTURE = re.compile(r"^from __future__ import .*\n", re.MULTILINE)  # must open a program
_DEF = re.compile(r"^(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)


def entry_of(task: str) -> str | None:
    """The function that a task asks for: the last one that its text opens."""
    names = _DEF.findall(task)
    return names[-1] if names else None


def program_of(code: str, task: str, entry_point: str) -> str:
    """The program of an answer's code."""
    program = task + code if _is_body(code, entry_point) else _head(task, entry_point) + textwrap.dedent(code)
    return "".join(_FUTURE.findall(program)) + PRELUDE + _FUTURE.sub("", program)


def _head(task: str, entry_point: str) -> str:
    """What stands before the function in the task; nothing when it is not there."""
    return next((task[: found.start()] for found in _DEF.finditer(task) if found[1] == entry_point), "")


def _is_body(code: str, name: str) -> bool:
    """Whether the first line that is not blank is indented, and the function is not made anywhere."""
    first = next((line for line in code.split("\n") if line.strip()), "")
    made = rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b"  # a body may well have a variable of the name
    return first[:1] in (" ", "\t") and not re.search(made, textwrap.dedent(code), re.MULTILINE)
