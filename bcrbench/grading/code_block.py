"""The program in an answer: the last fenced block of Python, as the release takes it (decision 13)."""

from __future__ import annotations

import re

# An opening fence with or without a language, and its closing one; a block that was cut off runs to the end.
_BLOCK = re.compile(
    r"^[ \t]*```[ \t]*(?P<language>\w*)[^\n]*\n(?P<code>.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE
)
_PYTHON = ("python", "python3", "py", "")
_CODE = re.compile(r"^(?:def |class |import |from \w|async def |@|\w+ *=[^=])", re.MULTILINE)


def code_block(text: str) -> str | None:
    """The last block of Python; the whole text when it has no fence but looks like code; None when there is none."""
    blocks = [match["code"] for match in _BLOCK.finditer(text) if match["language"].lower() in _PYTHON]
    code = next((block for block in reversed(blocks) if block.strip()), None)
    if code is None and "```" not in text and _CODE.search(text):
        code = text
    return code if code is None else code.rstrip() + "\n"
