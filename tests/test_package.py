"""The package as others get it: what the wheel holds, what it declares, and what constraints.txt pins."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """The wheel of this checkout."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("*.whl")
    return ZipFile(path)


def test_the_wheel_holds_every_file_of_the_package_and_the_recipes(wheel: ZipFile) -> None:
    package = [path for path in (ROOT / "bcrbench").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    recipes = {f"bcrbench/{path.relative_to(ROOT)}" for path in (ROOT / "recipes").glob("*.yaml")}
    held = {name for name in wheel.namelist() if name.startswith("bcrbench/")}
    assert recipes
    assert held == recipes | {str(path.relative_to(ROOT)) for path in package}
    for name in ("bundled/quotes.jsonl", "tasks/prompts/quotes.yaml", "tasks/prompts/gsm8k.yaml"):
        assert f"bcrbench/{name}" in held


def test_the_wheel_has_the_command_the_license_and_nothing_of_the_tests(wheel: ZipFile) -> None:
    names = wheel.namelist()
    (points,) = [name for name in names if name.endswith("entry_points.txt")]
    assert "bcrbench = bcrbench.cli.main:main" in wheel.read(points).decode()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"bcrbench"}


def test_every_import_is_declared() -> None:
    declared = _names(_project()["dependencies"]) | _names([*_project()["optional-dependencies"]["gpu"]])
    declared |= _names(_project()["optional-dependencies"]["ray"])
    owners = packages_distributions()
    undeclared = {}
    for path in sorted((ROOT / "bcrbench").rglob("*.py")):
        for module in _imported(path):
            owned = {canonicalize_name(name) for name in owners.get(module, [module])}
            if not owned & declared:
                undeclared[module] = path.name
    assert undeclared == {}


def _imported(path: Path) -> set[str]:
    """Top-level names of the outside modules that a file imports when it runs."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for branch in node.body
        for part in ast.walk(branch)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found - {"bcrbench"} - set(sys.stdlib_module_names)


@pytest.mark.parametrize("python", PYTHONS)
def test_constraints_pin_every_dependency_once_within_its_bounds(python: str) -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins: dict[str, str] = {}
    for requirement in (Requirement(line) for line in lines if line and not line.startswith("#")):
        if requirement.marker is None or requirement.marker.evaluate({"python_version": python}):
            (pin,) = requirement.specifier
            name = canonicalize_name(requirement.name)
            assert pin.operator == "=="
            assert name not in pins, f"{name} is pinned twice for Python {python}"
            pins[name] = pin.version
    project = _project()
    for text in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), text


def test_the_oldest_python_is_said_once() -> None:
    assert _project()["requires-python"] == f">={PYTHONS[0]}"
