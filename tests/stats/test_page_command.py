"""`bcrbench stats --html` and `--plot`: what they write, what they say, and mistakes that leave nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from figurelogs import dense_items, reusing_items
from loglines import write_log

from bcrbench.cli.stats import stats
from bcrbench.errors import UserError


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(stats, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    outcomes = [k % 3 > 0 for k in range(10)]
    write_log(folder / "d.jsonl", "dense", [True] * 10, made=dense_items([True] * 10))
    write_log(folder / "k.jsonl", "kvcomm:gamma=1.0", outcomes, made=reusing_items(outcomes))
    return folder


def test_a_page_and_figures_beside_the_same_table(logs: Path, tmp_path: Path) -> None:
    bare = run(logs)
    html, plot = tmp_path / "outputs" / "report.html", tmp_path / "figures"
    made = run(logs, "--html", html, "--plot", plot)
    assert made.stdout == bare.stdout
    assert bare.stderr in made.stderr
    assert "note: figure budget is not drawn: no repair was run at two budgets or more" in made.stderr
    assert f"note: {html}: " in made.stderr
    assert html.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert {path.suffix for path in plot.iterdir()} == {".png", ".pdf", ".csv"}


def test_a_page_beside_a_table_of_the_paper_has_the_notes_of_the_comparison(logs: Path, tmp_path: Path) -> None:
    run(logs, "--table", "9", "--html", tmp_path / "r.html")
    assert "discordant pairs" in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("option", "target", "told"),
    [
        ("--html", "runs", "is a folder"),
        ("--html", "runs/d.jsonl", "one of the logs"),
        ("--plot", "runs/d.jsonl", "is a file"),
        ("--html", "runs/d.jsonl/r.html", "cannot be made"),
        ("--plot", "runs/d.jsonl/new", "cannot be made"),
    ],
)
def test_places_that_cannot_be_written_to_are_mistakes(
    logs: Path, tmp_path: Path, option: str, target: str, told: str
) -> None:
    before = {path: path.read_bytes() for path in logs.iterdir()}
    with pytest.raises(UserError, match=told):
        run(logs, option, tmp_path / target)
    assert {path: path.read_bytes() for path in logs.iterdir()} == before


def test_what_must_not_be_compared_writes_nothing(logs: Path, tmp_path: Path) -> None:
    write_log(logs / "z.jsonl", "opengate", [True] * 10, model={"dtype": "bfloat16"})
    with pytest.raises(UserError, match="dtype"):
        run(logs, "--html", tmp_path / "r.html", "--plot", tmp_path / "figures")
    assert not (tmp_path / "r.html").exists()
    assert not (tmp_path / "figures").exists()
