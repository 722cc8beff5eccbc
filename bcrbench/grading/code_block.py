"""The program in an answer: the last fenced block of Python, as the release takes it (decision 13; kvcomm.md 4).

Fences are read as Markdown has them, of backticks or tildes: what closes a block is at least as long as what opened it,
of the same kind, indented no more than three columns further, and stands alone. So a fence inside a docstring closes
nothing. Three things are read as the release's search for the last "```python" has them: such a fence opens a block
inside another one, it does so behind text on its line, and a block that was cut off runs to the end.

Nothing here parses the program: a grader must survive what no parser does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_NEWLINE = re.compile(r"\r\n?|\n")
_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,}(?!~))(?P<info>[^`]*)")
_PYTHON = re.compile(r"[{.]*(?:python|py)[0-9.]*[}.]*", re.IGNORECASE)
_SLACK = 3  # columns that a closing fence may stand further in

# The first line of a program, or of a function's body, that nobody put into a block.
_CODE = re.compile(
    r"""(?:def|class)\s+\w+\s*[(:\[]|async\s+(?:def|for|with)\s|@[\w.]+
    |import\s+\w[\w.]*(?:\s+as\s+\w+)?(?:\s*,\s*\w[\w.]*(?:\s+as\s+\w+)?)*\s*(?:\#|$)|from\s+[\w.]+\s+import\s
    |(?:if|for|while|with|try|else|elif|except|finally)\b.*:\s*(?:\#.*)?$
    |(?:return|raise|assert|yield)\b|(?:pass|break|continue)\s*(?:\#.*)?$
    |[A-Za-z_][\w.]*(?:\[[^\]]*\])?(?:\s*,\s*[A-Za-z_]\w*)*(?:\s*:\s*[\w.\[\], ]+)?
        \s*(?:[-+*/%&|^@]|//|\*\*|<<|>>)?=(?!=)
    |[A-Za-z_][\w.]*\(.*\)\s*(?:\#.*)?$|\"\"\"|'''""",
    re.VERBOSE,
)


@dataclass
class _Block:
    """A fenced block under way: how it was opened, and its lines."""

    indent: int
    fence: str
    info: str
    lines: list[str] = field(default_factory=list)

    @property
    def python(self) -> bool:
        """Whether it says that it holds Python."""
        return is_python(self.info)

    @property
    def bare(self) -> bool:
        """Whether it says nothing."""
        return not self.info.strip()

    def closed_by(self, fence: str, indent: int) -> bool:
        """Whether a fence that stands alone ends this block."""
        return fence[0] == self.fence[0] and len(fence) >= len(self.fence) and indent <= self.indent + _SLACK

    def code(self) -> str:
        """Its text without the indentation of its opening fence."""
        lines = [line[min(self.indent, len(line) - len(line.lstrip())) :] for line in self.lines]
        return "\n".join(lines).rstrip() + "\n"

    @property
    def empty(self) -> bool:
        """Whether it holds nothing but blanks."""
        return not any(line.strip() for line in self.lines)


def is_python(info: str) -> bool:
    """Whether the first word behind a fence means Python."""
    words = info.split()
    return bool(words) and bool(_PYTHON.fullmatch(words[0]))


def code_block(text: str) -> str | None:
    """The last block of Python, else the last unnamed block that looks like code.

    Without any fence the whole text, when its first line looks like code; None when there is no code. Blocks without
    content do not count.
    """
    lines = _NEWLINE.split(text)
    blocks = list(_blocks(lines))
    if not blocks:
        return text.rstrip() + "\n" if looks_like_code(lines) else None
    full = [block for block in blocks if not block.empty]
    named = [block for block in full if block.python]
    unnamed = [block for block in full if block.bare and looks_like_code(block.lines)]
    chosen = named or unnamed
    return chosen[-1].code() if chosen else None


def looks_like_code(lines: list[str]) -> bool:
    """Whether the first line could open a program or go on with a function's body; blank lines and comments aside."""
    first = next((line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    return bool(_CODE.match(first[:400]))


def _blocks(lines: list[str]) -> Iterator[_Block]:
    """The fenced blocks, in order, the last one closed or not."""
    block: _Block | None = None
    for line in lines:
        opened, closes = _read_fence(line, block)
        if block is not None and (opened or closes):
            yield block
            block = None
        elif block is not None:
            block.lines.append(line)
        if opened:
            block = opened
    if block is not None:
        yield block


def _read_fence(line: str, block: _Block | None) -> tuple[_Block | None, bool]:
    """The block that a line opens, and whether it closes the one under way."""
    alone = _FENCE.fullmatch(line)
    if alone is None:
        return (_behind_text(line) if block is None else None), False
    opened = _Block(len(alone["indent"]), alone["fence"], alone["info"])
    if block is None:
        return opened, False
    if opened.bare:
        return None, block.closed_by(opened.fence, opened.indent)
    near = opened.indent <= block.indent + _SLACK
    return (opened if near and opened.python else None), False


def _behind_text(line: str) -> _Block | None:
    """The block of Python that a line opens behind some text, as in "A: ```python"."""
    for fence in ("```", "~~~"):
        before, found, info = line.rpartition(fence)
        before = before.rstrip(fence[0])
        if found and is_python(info) and len(info.split()) == 1 and not {"`", "~"} & set(before):
            return _Block(0, line[len(before) :].removesuffix(info), info)
    return None
