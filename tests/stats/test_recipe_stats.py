"""`bcrbench stats --recipe`: which logs it takes, what it saves, and what it says where there is nothing."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from figurelogs import dense_items, reusing_items
from loglines import write_log
from papergrid import cell_log, probe_log

from bcrbench.cli.stats import stats
from bcrbench.errors import UserError
from bcrbench.settings import Settings
from bcrbench.stats.recipes.choice import Wanted, choose, peek
from bcrbench.sweep.recipe import names, read

WELL, BADLY = ["correct"] * 12, ["wrong"] * 12
RECIPE = """
renders: {renders}
settings: {{task: quotes, agents: 3, limit: 12}}
conditions: [dense, "kvcomm:gamma=0.3"]
claims:
  - text: Reuse loses.
    kind: below
    parameters: {{condition: "kvcomm:gamma=0.3", reference: dense{more}}}
  - text: A second "kind" | of claim.
    kind: order
    parameters: {{conditions: [dense, kvcomm, opengate]}}
"""


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(stats, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    cell_log(folder, "dense", "quotes", outcomes=WELL)
    cell_log(folder, "kvcomm:gamma=0.3", "quotes", outcomes=BADLY)
    return folder


def recipe(folder: Path, renders: str = '["2"]', more: str = "") -> Path:
    path = folder / "own.yaml"
    path.write_text(RECIPE.format(renders=renders, more=more))
    return path


def test_a_table_is_saved_in_four_formats_with_its_claims(tmp_path: Path, logs: Path) -> None:
    made = run(logs, "--recipe", recipe(tmp_path), "--profile", "demo", "--save", tmp_path / "out")
    assert made.exit_code == 0
    files = {path.suffix: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        f"table2.{end}" for end in ("md", "csv", "tex", "json")
    }
    whole = json.loads(files[".json"])
    assert [claim["verdict"] for claim in whole["claims"]] == ["held", "no log"]
    assert whole["claims"][0] | {"evidence": ""} == {
        "claim": "Reuse loses", "kind": "below", "verdict": "held", "evidence": "", "n": 12
    }  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(files[".csv"])))
    assert [row["accuracy"] for row in rows] == [
        "" if row["accuracy"] is None else str(row["accuracy"]) for row in whole["rows"]
    ]
    assert "paper_accuracy" in rows[0]
    assert "- **held**: Reuse loses (" in files[".md"]
    assert r'A second "kind" \| of claim (no log of opengate' in files[".md"]
    for line in files[".tex"].splitlines():
        assert "Reuse loses" not in line or line.startswith("%")
    assert "  held: Reuse loses (" in made.stdout
    assert made.stdout.startswith("Table 2.")
    assert f"wrote {tmp_path / 'out' / 'table2'}.{{md,csv,tex,json}}" in made.stderr


def test_the_terminal_shows_the_format_that_is_asked_for(tmp_path: Path, logs: Path) -> None:
    made = run(logs, "--recipe", recipe(tmp_path), "--profile", "demo", "--format", "json")
    assert json.loads(made.stdout)["recipe"] == "own"


def test_a_recipe_that_renders_nothing_gets_the_comparison(tmp_path: Path, logs: Path) -> None:
    probe_log(logs)
    run(logs, "--recipe", recipe(tmp_path, "[]"), "--profile", "demo", "--save", tmp_path / "out")
    whole = json.loads((tmp_path / "out" / "own.json").read_text())
    assert [row["condition"] for row in whole["rows"]] == ["dense", "kvcomm:gamma=0.3"]
    assert "kvcomm:gamma=0.3" in (tmp_path / "out" / "own.csv").read_text()


def test_figure_2_is_drawn_panel_by_panel(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    write_log(folder / "dense.jsonl", "dense", [], made=dense_items([True] * 20))
    write_log(folder / "kv.jsonl", "kvcomm:gamma=0.3", [], made=reusing_items([True, False] * 10, 5))
    made = run(folder, "--recipe", recipe(tmp_path, "[figure2]"), "--profile", "demo", "--save", tmp_path / "out")
    found = {path.name for path in (tmp_path / "out").iterdir()}
    assert found == {"figure2.md", "figure2.csv", "figure2.tex", "figure2.json",
                     "figure2a.png", "figure2a.pdf", "figure2b.png", "figure2b.pdf"}  # fmt: skip
    assert {row["panel"] for row in json.loads((tmp_path / "out" / "figure2.json").read_text())["rows"]} == {"a", "b"}
    assert "](figure2a.png)" in (tmp_path / "out" / "figure2.md").read_text()
    assert "figure2b.png" in made.stdout


def test_a_figure_that_cannot_be_drawn_says_why(tmp_path: Path, logs: Path) -> None:
    (logs / "001.jsonl").unlink()
    made = run(logs, "--recipe", recipe(tmp_path, "[figure2]"), "--profile", "demo", "--save", tmp_path / "out")
    assert "figure reuse-line is not drawn" in made.stdout
    assert not list((tmp_path / "out").glob("*.png"))


@pytest.mark.parametrize("name", names())
def test_a_recipe_without_any_log_names_the_sweep_that_makes_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = run("--recipe", name, "--profile", "demo", "--save", "outputs")
    assert made.exit_code == 0
    assert f"`bcrbench sweep {name} --profile demo` makes them" in made.stdout
    rendered = read(name).renders or [name]
    for render in rendered:
        file = Path("outputs") / f"{f'table{render}' if render.isdigit() else render}.json"
        whole = json.loads(file.read_text())
        assert {claim["verdict"] for claim in whole["claims"]} <= {"no log"}
        assert any("bcrbench sweep" in note for note in whole["notes"])


def test_the_folder_is_that_of_the_recipes_settings(
    tmp_path: Path, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    logs.rename(tmp_path / "runs" / "demo")
    path = recipe(tmp_path)
    path.write_text(path.read_text() + "profiles: {demo: {settings: {seed: 0}}}\n")
    assert "held: Reuse loses" in run("--recipe", "own.yaml", "--profile", "demo").stdout
    assert "no log: Reuse loses" in run("--recipe", "own.yaml", "--profile", "paper").stdout
    cell_log(tmp_path / "runs" / "demo", "dense", "gsm8k", given={"recipe": "table03"})
    for path in (tmp_path / "runs" / "demo").glob("00[01].jsonl"):
        path.unlink()
    assert "none of 1 logs is of this recipe's cells" in run("--recipe", "own.yaml", "--profile", "demo").stdout


def test_runs_of_another_limit_stand_aside(tmp_path: Path, logs: Path) -> None:
    """The recipe's own size wins over a larger one; without it the largest is taken, and nothing clashes."""
    for condition, outcomes in (("dense", BADLY * 2), ("kvcomm:gamma=0.3", WELL * 2)):
        cell_log(logs, condition, "quotes", outcomes=outcomes)
    for path in sorted(logs.iterdir())[:2]:
        head, *rest = path.read_bytes().splitlines()
        first = msgspec.json.decode(head)
        first["resolved"]["limit"] = 12
        path.write_bytes(b"\n".join([msgspec.json.encode(first), *rest, b""]))
    own = recipe(tmp_path)
    made = run(logs, "--recipe", own, "--profile", "demo")
    assert "  held: Reuse loses" in made.stdout
    assert "(quotes, 3 agents, 12 items" in made.stdout
    for path in sorted(logs.iterdir())[:2]:
        path.unlink()
    assert "  not held: Reuse loses" in run(logs, "--recipe", own, "--profile", "demo").stdout


def test_logs_of_other_places_are_taken_only_where_nothing_else_is(tmp_path: Path, logs: Path) -> None:
    other = cell_log(logs, "dense", "quotes", agents=5)
    pinned = cell_log(logs, "dense", "quotes", pinned=True)
    probe = probe_log(logs)
    paths = sorted(logs.iterdir())
    settings = msgspec.to_builtins(Settings(task="quotes"))
    assert choose(paths, [Wanted(settings)]) == ([path for path in paths if path not in (other, pinned, probe)], True)
    assert choose(paths, [Wanted(settings | {"agents": 5})]) == ([other], True)
    assert choose(paths, [Wanted(settings | {"roles": "pin:another"})]) == ([pinned], True)
    assert choose(paths, [Wanted(settings, probe=True)]) == ([probe], True)
    assert choose(paths, [Wanted(settings | {"task": "mmlu"})]) == (paths, False)


def test_of_other_places_only_own_runs_and_those_of_no_recipe_are_taken(tmp_path: Path, logs: Path) -> None:
    own = cell_log(logs, "dense", "gsm8k", given={"recipe": "own"})
    cell_log(logs, "dense", "gsm8k", 4, given={"recipe": "table03"})
    for path in sorted(logs.iterdir())[:2]:
        path.unlink()
    settings = msgspec.to_builtins(Settings(task="quotes"))
    assert choose(sorted(logs.iterdir()), [Wanted(settings, recipe="own")]) == ([own], False)
    assert choose(sorted(logs.iterdir()), [Wanted(settings, recipe="other")]) == ([], False)


def test_a_file_without_a_first_record_is_left_to_the_reader(tmp_path: Path, logs: Path) -> None:
    (logs / "torn.jsonl").write_text('{"record":"run","sche')
    assert peek(logs / "torn.jsonl") is None
    made = run(logs, "--recipe", recipe(tmp_path), "--profile", "demo")
    assert "torn.jsonl: its first line is torn" in made.stdout
    (logs / "other.jsonl").write_text("hello\n")
    with pytest.raises(UserError, match=r"other\.jsonl"):
        run(logs, "--recipe", recipe(tmp_path), "--profile", "demo")


@pytest.mark.parametrize("name", ["own", "table3", "table8", "figure2", "quotes-repair"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_folder_of_runs_that_were_killed_at_once_says_so_and_what_fills_it(
    name: str, count: int, tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    folder.mkdir()
    for number in range(count):
        (folder / f"{number}.jsonl").write_bytes(b"" if number else b'{"record":"run","sche')
    made = run(folder, "--recipe", recipe(tmp_path) if name == "own" else name, "--profile", "demo")
    assert made.exit_code == 0 and made.output.count("left out") >= count
    assert "no log of this recipe yet" in made.output and "are taken" not in made.output


def test_mistakes_are_one_line_and_nothing_is_written(tmp_path: Path, logs: Path) -> None:
    out = tmp_path / "out"
    own = recipe(tmp_path, more=", agnets: 3")
    with pytest.raises(UserError, match=r"own\.yaml, line 6.*did you mean 'agents'"):
        run(logs, "--recipe", own, "--save", out, "--profile", "demo")
    with pytest.raises(UserError, match="unknown table or figure in recipe own.yaml 'table2'"):
        run(logs, "--recipe", recipe(tmp_path, "[table2]"), "--save", out, "--profile", "demo")
    with pytest.raises(UserError, match="unknown profile 'dmo'"):
        run(logs, "--recipe", recipe(tmp_path), "--save", out, "--profile", "dmo")
    with pytest.raises(UserError, match="--save .* has no meaning without --recipe"):
        run(logs, "--save", out)
    for options in (("--table", "3"), ("--vs", "dense"), ("--items-across-cells",), ("--paper-check",)):
        with pytest.raises(UserError, match=f"^{options[0]}: has no meaning with --recipe table3"):
            run(logs, "--recipe", "table3", "--save", out, *options)
    assert not out.exists()
    out.write_text("a file")
    with pytest.raises(UserError, match="--save"):
        run(logs, "--recipe", recipe(tmp_path), "--save", out, "--profile", "demo")


def test_saving_twice_gives_the_same_bytes(tmp_path: Path, logs: Path) -> None:
    kept = []
    for out in ("one", "two"):
        run(logs, "--recipe", recipe(tmp_path), "--profile", "demo", "--save", tmp_path / out)
        kept.append({path.name: path.read_bytes() for path in (tmp_path / out).iterdir()})
    assert kept[0] == kept[1]
