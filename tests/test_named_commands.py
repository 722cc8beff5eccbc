"""Commands that docs, recipes and messages name: every option exists on the command that is given it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bcrbench.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[1]
FILES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "recipes").glob("*.yaml")),
    *sorted((ROOT / "bcrbench").rglob("*.py")),
]
# Up to the end of the line, of inline code or of the sentence; what is in quotes belongs to the command.
_COMMAND = re.compile(r"bcrbench (?P<name>[a-z]+)(?P<rest>[^`\n;|#)]*)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def named(path: Path) -> Iterator[tuple[str, str]]:
    """(command, option) of every command line that a file holds."""
    for found in _COMMAND.finditer(path.read_text(encoding="utf-8")):
        if found["name"] in COMMANDS:
            for option in _OPTION.findall(found["rest"]):
                yield found["name"], option


def options(name: str) -> set[str]:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return {text for parameter in command.params for text in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}


KNOWN = {name: options(name) for name in COMMANDS}


@pytest.mark.parametrize("path", [path for path in FILES if any(named(path))], ids=lambda path: path.name)
def test_every_option_that_is_named_exists(path: Path) -> None:
    assert [pair for pair in named(path) if pair[1] not in KNOWN[pair[0]]] == []


def test_the_scan_sees_what_it_must(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`bcrbench repair --probe units --segment-tokens 8` and bcrbench stats runs --vs dense\n")
    assert list(named(page)) == [("repair", "--probe"), ("repair", "--segment-tokens"), ("stats", "--vs")]
