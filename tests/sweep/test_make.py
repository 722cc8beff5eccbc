"""Make's settings reach the commands whole: folders with spaces, a home folder, nothing given."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def made(folder: Path, *words: str) -> list[list[str]]:
    """The arguments of each bcrbench that make starts, in an environment that only writes them down."""
    tools = folder / "tools" / "bin"
    tools.mkdir(parents=True)
    for name, does in (
        ("bcrbench", f"for word; do echo \"$word\" >> '{folder}/said'; done; echo . >> '{folder}/said'"),
        ("python", 'test "$3" = auto && echo demo || echo "$3"'),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{does}\n")
        (tools / name).chmod(0o755)
    for stamp in (".made-by-python3", ".installed"):
        (tools.parent / stamp).touch()
    empty = folder / "checkout"  # not this one: logs that lie in it would be named one by one
    (empty / "bcrbench").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "bcrbench/__init__.py"):
        shutil.copy2(ROOT / name, empty / name)
    done = subprocess.run(
        ["make", "-C", str(empty), f"VENV={tools.parent}", "PY=python3", *words],
        capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "HOME": str(folder)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [call.splitlines() for call in (folder / "said").read_text().split(".\n") if call]


@pytest.mark.parametrize(
    ("given", "folder"),
    [("o", "o"), ("a b", "a b"), ("~/a b", "{}/a b"), ("~/o", "{}/o"), ("", "runs"), (None, "runs")],
)
@pytest.mark.parametrize("target", ["demo", "table3"])
def test_logs_go_to_the_folder_that_is_named(target: str, given: str | None, folder: str, tmp_path: Path) -> None:
    calls = made(tmp_path, target, "LIMIT=3", *([] if given is None else [f"OUT={given}"]))
    out = folder.format(tmp_path) + ("/demo" if target == "table3" else "")
    sweep, stats = calls
    assert sweep[0] == "sweep" and sweep[sweep.index("--out") + 1] == out
    assert stats[:2] == ["stats", out if target == "table3" else f"{out}/*.jsonl"]
    assert sweep[sweep.index("--limit") + 1] == "3"


def test_other_settings_of_a_table(tmp_path: Path) -> None:
    sweep, _ = made(tmp_path, "table3", "PROFILE=paper", "MODEL=~/my models/m", "EXECUTOR=ray", "ARGS=--seed 3")
    at = {name: sweep[sweep.index(name) + 1] for name in ("--profile", "--model", "--executor", "--seed")}
    assert at == {"--profile": "paper", "--model": f"{tmp_path}/my models/m", "--executor": "ray", "--seed": "3"}
