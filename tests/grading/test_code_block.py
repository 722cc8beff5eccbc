"""Which part of an answer is its program: fences of every kind, cut-off blocks, bare code, prose."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrbench.grading.code_block import code_block

CODE = "def f(x):\n    return x + 1\n"


@pytest.mark.parametrize(
    "text",
    [
        f"```python\n{CODE}```",
        f"Here it is:\n\n```python\n{CODE}```\nIt adds one.",
        f"```py\n{CODE}```",
        f"```Python3\n{CODE}```",
        f"```python3.11\n{CODE}```",
        f"``` python\n{CODE}```",
        f"```{{.python}}\n{CODE}```",
        f"```python title=\"f.py\"\n{CODE}```",
        f"```\n{CODE}```",
        f"~~~python\n{CODE}~~~",
        f"~~~~\n{CODE}~~~~",
        f"A: ```python\n{CODE}```",
        f"A: ~~~python\n{CODE}~~~",
        f"```python\r\n{CODE}```\r\n".replace("\n", "\r\n").replace("\r\r", "\r"),
        f"```python\n{CODE}",
        f"```python\n{CODE}``",
        f"```python\n{CODE}\n\n\n```",
        f"````markdown\n```python\n{CODE}```\n````",
        f"```text\nno\n```python\n{CODE}```",
        f"```python\nold = 1\n```\nBetter:\n```python\n{CODE}```",
        f"```python\n{CODE}```\nIt prints\n```\n2\n```",
        f"```python\n{CODE}```\n```json\n{{}}\n```",
        f"```python\n{CODE}```\n```python\n\n```",
        f"```python\n{CODE}```\n```python\n",
        f"1. First:\n\n    ```python\n    {CODE.replace(chr(10), chr(10) + '    ').rstrip(' ')}    ```\n",
        f"- ```python\n{CODE}```",
        CODE,
        f"\n\n{CODE}\n",
    ],
)  # fmt: skip
def test_the_program_is_found(text: str) -> None:
    found = code_block(text)
    assert found is not None
    assert found.strip("`\n") == CODE.strip("\n")


@pytest.mark.parametrize(
    "inner", ["    ```\n    f(1)\n    ```\n", "    ~~~\n    f(1)\n    ~~~\n", "    ```python\n    f(1)\n    ```\n"]
)
def test_a_fence_inside_a_docstring_closes_nothing(inner: str) -> None:
    code = f'def f(x):\n    """Adds.\n\n{inner}    """\n    return x + 1\n'
    assert code_block(f"```python\n{code}```\nDone.") == code


def test_a_longer_fence_holds_shorter_ones() -> None:
    code = 'TEXT = """\n```\ninner\n```\n"""\n'
    assert code_block(f"````python\n{code}````\n") == code


@pytest.mark.parametrize(
    "text",
    ["", " \n\n", "I cannot do that.", "The answer is 5.", "from the start, we add one", "import the list and add",
     "class of problems: sorting", "# Heading\n\nSome words.", "```\nSome words.\n```", "```json\n{}\n```",
     "```python\n```", "```python\n   \n", "x == 1 holds", "Use a ```python fence", "for example, 3", "with care",
     "```bash\npython f.py\n```"],
)  # fmt: skip
def test_prose_is_no_program(text: str) -> None:
    assert code_block(text) is None


@pytest.mark.parametrize(
    "text",
    ["    return x + 1\n", "    if x:\n        return 1\n    return 2\n", "import math\nanswer = math.pi\n", "x = 5\n",
     "from math import pi\nprint(pi)\n", "@cache\ndef f(x): ...\n", "x: int = 5\n", "a, b = 1, 2\n", "a[0] += 1\n",
     "print(1)\n", "# one\nx = 1\n", '"""Doc."""\nx = 1\n', "for i in x:\n    print(i)\n", "async def f(): ...\n",
     "def f[T](x: T) -> T:\n    return x\n", "pass\n"],
)  # fmt: skip
def test_code_without_a_fence_is_taken_whole(text: str) -> None:
    assert code_block(text) == text


LINES = st.lists(
    st.sampled_from(["```", "```python", "~~~", "~~~py", "````", "    ```", "x = 1", "def f():", "    return 1",
                     "words", "", "A: ```python", "```json", "`", "~"]), max_size=14
).map("\n".join)  # fmt: skip


@given(st.one_of(LINES, st.text()))
def test_a_program_is_part_of_the_text_and_never_empty(text: str) -> None:
    found = code_block(text)
    if found is not None:
        assert found.strip()
        assert found.endswith("\n") and not found.endswith("\n\n")
        lines = {line.strip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")}
        assert all(line.strip() in lines for line in found.split("\n") if line.strip())


@given(LINES, st.sampled_from(["```", "~~~~", "`````"]))
def test_the_last_closed_block_wins_whatever_stands_before(before: str, fence: str) -> None:
    assert code_block(f"{before}\n{fence}python\n{CODE}{fence}") == CODE


@pytest.mark.parametrize(
    "piece", ["`", "~", "a", "a ", "x, ", "x.", "```python\n", " ", "a[", "a:b", "import a,", "```", "~~~\n"]
)
def test_a_model_in_a_loop_is_read_at_once(piece: str) -> None:
    begin = time.process_time()
    code_block(piece * 10_000)
    assert time.process_time() - begin < 2
