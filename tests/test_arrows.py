"""The house's arrows as a scan of the source: who may import whom, and who stays free of torch.

Imports are read from the syntax tree, those inside functions included; `if TYPE_CHECKING:` blocks do not run and are
left out. The light packages are followed through everything of ours that they import on loading.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import bcrbench

PACKAGE = Path(bcrbench.__file__).parent
HEAVY = {"torch", "transformers"}


def _module(path: Path) -> str:
    parts = ["bcrbench", *path.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {_module(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def _running(node: ast.AST, deep: bool) -> Iterator[ast.AST]:
    """Nodes that run: without TYPE_CHECKING blocks and, unless `deep`, without bodies of functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from (part for branch in child.orelse for part in (branch, *_running(branch, deep)))
        elif deep or not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from _running(child, deep)


def imports(module: str, deep: bool = True) -> set[str]:
    """Names of the modules that a module of ours imports: `from a import b` gives `a.b` where that is a module."""
    found: set[str] = set()
    for node in _running(SOURCES[module], deep):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            assert node.module is not None
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & SOURCES.keys()) | ({node.module} if inner - SOURCES.keys() else set())
    return found


def _reaches(module: str) -> set[str]:
    """Every module that loading a module of ours loads, ours followed, outside packages by their top name."""
    seen, todo, outside = set(), [module], set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        parent = name.rpartition(".")[0]
        todo += [parent] if parent else []
        for other in imports(name, deep=False):
            if other in SOURCES:
                todo.append(other)
            else:
                outside.add(other.partition(".")[0])
    return outside


def _inside(*rooms: str) -> list[str]:
    return [m for m in SOURCES if any(m == f"bcrbench.{room}" or m.startswith(f"bcrbench.{room}.") for room in rooms)]


# room: rooms that it must not know
FORBIDDEN = {
    "engine": ("agents", "reuse", "repair", "tasks", "runs", "sweep", "stats", "grading", "cli"),
    "reuse": ("agents", "tasks", "sweep", "stats", "grading", "cli"),
    "repair": ("agents", "tasks", "sweep", "stats", "grading", "cli"),
    "agents": ("sweep", "stats", "cli"),
    "tasks": ("engine", "reuse", "repair", "runs", "sweep", "stats", "cli"),
    "tools": ("engine", "reuse", "repair", "agents", "tasks", "sweep", "stats", "verify", "probe", "cli"),
    "runs": ("engine", "reuse", "repair", "agents", "sweep", "stats", "cli"),
    "grading": ("engine", "reuse", "repair", "agents", "tools", "sweep", "stats", "cli"),
    "stats": ("engine", "reuse", "repair", "agents", "tasks", "sweep", "probe", "cli"),
    "sweep": ("cli", "stats", "verify", "probe"),
    "probe": ("cli", "stats", "verify"),
    "bench": ("agents", "cli", "stats", "sweep", "verify", "probe"),
    "verify": ("cli",),
    "bundled": ("cli", "sweep", "stats"),
}


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_does_not_know_the_rooms_above_it(room: str) -> None:
    above = _inside(*FORBIDDEN[room])
    crossed = {module: sorted(imports(module) & set(above)) for module in _inside(room)}
    assert {module: names for module, names in crossed.items() if names} == {}


def test_nobody_but_the_command_line_imports_the_command_line() -> None:
    known = set(_inside("cli"))
    users = {module for module in SOURCES if imports(module) & known}
    assert users - known == {"bcrbench.__main__"}


@pytest.mark.parametrize("module", _inside("stats", "grading"))
def test_statistics_and_grading_never_import_torch(module: str) -> None:
    assert not {name.partition(".")[0] for name in imports(module)} & HEAVY


LIGHT = [
    *_inside("stats", "grading", "cli", "agents.graph", "agents.promptset", "runs.schema", "runs.log", "runs.writer"),
    "bcrbench.settings",
    "bcrbench.sweep.recipe",
    "bcrbench.tasks",
]


@pytest.mark.parametrize("module", LIGHT)
def test_loading_a_light_module_never_loads_torch(module: str) -> None:
    assert not _reaches(module) & HEAVY


def test_the_scan_sees_what_it_must() -> None:
    assert "torch" in _reaches("bcrbench.engine.model")
    assert "bcrbench.settings" in imports("bcrbench.sweep.grid")
    assert "torch" in imports("bcrbench.runs.provenance")  # inside a function
    assert "bcrbench.stats.report" in imports("bcrbench.cli.stats")
