"""Every command explains itself, is documented, and does so without loading what only a run needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from bcrbench.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "transformers", "scipy", "numpy", "datasets", "pandas", "matplotlib", "ray")

# Runs --help in a fresh interpreter and reports which heavy modules came along.
PROBE = """
import sys
from bcrbench.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("LOADED", *sorted(set(sys.modules) & set({heavy!r})))
"""


def _help(*words: str) -> tuple[int, str, list[str]]:
    code = PROBE.format(heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code, *words, "--help"], capture_output=True, text=True, cwd=ROOT)
    text, _, loaded = done.stdout.rpartition("LOADED")
    return done.returncode, text, loaded.split()


@pytest.mark.parametrize("words", [(), *((name,) for name in COMMANDS)], ids=lambda words: " ".join(words) or "group")
def test_help_is_light_and_exits_with_0(words: tuple[str, ...]) -> None:
    code, text, loaded = _help(*words)
    assert code == 0
    assert text.startswith("Usage: ")
    assert loaded == []


def test_the_list_of_commands_shows_each_with_its_summary() -> None:
    _, text, _ = _help()
    lines = text.partition("Commands:")[2].strip().splitlines()
    shown = dict(line.split(maxsplit=1) for line in map(str.strip, lines))
    assert list(shown) == list(COMMANDS)
    assert all(shown.values())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_and_its_options_are_explained(name: str) -> None:
    command = cli.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    assert command.name == name
    assert (command.help or "").strip(), f"{name} has no docstring"
    options = [option for option in command.params if isinstance(option, click.Option)]
    silent = [option.name for option in options if not option.help]
    assert silent == [], f"{name}: options without help"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_documented(name: str) -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    shown = [page.name for page in pages if f"bcrbench {name}" in page.read_text(encoding="utf-8")]
    assert shown, f"no page shows bcrbench {name}"


def test_importing_the_package_is_light() -> None:
    code = f"import sys, bcrbench; print(*set(sys.modules) & {set(HEAVY) | {'click', 'msgspec'}!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == []
