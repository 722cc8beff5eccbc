"""Recipes: the schema and its errors, profiles, recipes that use others, and those that ship."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrbench.cli.main import main
from bcrbench.cli.recipe_check import check_recipe
from bcrbench.conditions import parse
from bcrbench.errors import UserError
from bcrbench.probe.options import options_of
from bcrbench.sweep.grid import Sweep, expand, expand_all
from bcrbench.sweep.order import model_key
from bcrbench.sweep.profiles import chosen
from bcrbench.sweep.recipe import PROFILES, claims, entries, find, folder, names, own_entries, read, spread

ROOT = Path(__file__).parents[2]
LLAMA = "meta-llama/Llama-3.1-8B-Instruct@0e9e39f249a16976918f6564b8830bc894c89659"
QWEN = "Qwen/Qwen2.5-Coder-7B-Instruct@c03e6d358207e414f1eca0bb1891e29f1db0e242"
TABLES = [*(f"table{n:02d}" for n in range(1, 16)), "figure2"]
READERS = {"table01", "table04", "table06", "table13", "table14", "table15", "figure2"}
EVERY = [(name, profile) for name in names() for profile in PROFILES]


@cache
def swept(name: str, profile: str = "paper") -> Sweep:
    """A recipe's runs with the hub left alone."""
    return expand_all(name, [], {"dry_run": True}, None, profile)


def test_there_is_a_recipe_for_every_table_and_figure_and_for_the_demo() -> None:
    assert {*TABLES, "demo", "quotes-repair"} <= set(names())
    shown = [thing for name in TABLES for thing in read(name).renders]
    assert shown == [name.removeprefix("table").lstrip("0") for name in TABLES]


@pytest.mark.parametrize("name", names())
def test_a_recipe_says_what_it_is_for(name: str) -> None:
    head = find(name).read_text(encoding="utf-8").partition("\nabout:")[0].splitlines()
    assert head and all(line.startswith("#") for line in head)
    assert read(name).about.endswith(".")
    if name in TABLES:
        text = " ".join(line.lstrip("# ") for line in head)
        assert all(part in text for part in ("The claim:", "Look at", "One GPU:")), "claim, what to see, hours"


@pytest.mark.parametrize(("name", "profile"), [("table03", "paper"), ("table04", "demo"), ("table10", "paper")])
def test_a_recipe_becomes_runs_without_model_or_network(
    name: str, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task in ("gsm8k", "mmlu"):
        monkeypatch.setattr(f"bcrbench.tasks.{task}.hub_rows", lambda hub, **_: pytest.fail(f"{hub} was fetched"))
    monkeypatch.setitem(sys.modules, "bcrbench.engine.model", None)  # importing it would raise
    made = expand_all(name, [], {"dry_run": True}, None, profile)
    assert made.plans or made.probes
    assert all(parse(plan.spec.text).text == plan.spec.text for plan in made.plans)
    assert all(options_of(probe.options) for probe in made.probes)
    keys = [(plan.spec.text, str(plan.cell.settings)) for plan in made.plans]
    assert len(set(keys)) == len(keys), "each run once"


@pytest.mark.parametrize("name", TABLES)
def test_the_paper_profile_has_the_papers_setting(name: str) -> None:
    for plan in swept(name).plans:
        settings, task = plan.cell.settings, plan.cell.task.name
        assert settings.model == (QWEN if task == "humaneval" else LLAMA)
        assert (settings.topology, settings.retrieval, plan.cell.max_new_tokens) == ("full", None, 512)
        assert plan.cell.grader.name == {"mmlu": "letter-substring"}.get(task, plan.cell.task.default_grader)
        assert settings.allow_code_execution == (task in ("gsm8k", "humaneval"))
        assert settings.out == "runs/paper"


@pytest.mark.parametrize("name", TABLES)
def test_the_demo_needs_nothing_but_the_package(name: str) -> None:
    made = swept(name, "demo")
    for settings in [plan.cell.settings for plan in made.plans] + [probe.settings for probe in made.probes]:
        assert settings.model in ("bundled", "random:tiny") and settings.task in ("quotes", "copymachine")
        assert settings.out == "runs/demo" and not settings.allow_code_execution
    assert all(0 < len(plan.cell.items) <= 60 for plan in made.plans)


@pytest.mark.parametrize("profile", PROFILES)
def test_all_tables_of_a_profile_share_their_runs(profile: str) -> None:
    apart = {(p.spec.text, str(p.cell.settings)) for name in TABLES for p in swept(name, profile).plans}
    own = sum(len(entry.conditions) for name in TABLES for entry in own_entries(name, read(name), profile))
    together = sum(len(swept(name, profile).plans) for name in TABLES)
    assert len(apart) <= own < together
    assert {name for name in TABLES if not own_entries(name, read(name), profile)} == READERS


@pytest.mark.parametrize(("name", "profile"), EVERY)
def test_runs_come_in_the_order_in_which_they_need_each_other(name: str, profile: str) -> None:
    plans = swept(name, profile).plans
    models = [model_key(plan) for plan in plans]
    assert all(models[k] == models[k - 1] or models[k] not in models[:k] for k in range(1, len(models)))
    for model in dict.fromkeys(models):
        kinds = [plan.spec.text.partition(":")[0] for plan in plans if model_key(plan) == model]
        dense = [k for k, kind in enumerate(kinds) if kind == "dense"]
        assert dense == list(range(len(dense))), "Dense first"
    for place, plan in enumerate(plans):
        wanted = str(getattr(plan.spec.policy, "match", "")).partition("reuse:")[2].replace("+", ",")
        before = {other.spec.text for other in plans[:place] if other.cell.settings == plan.cell.settings}
        assert not wanted or wanted in before


@pytest.mark.parametrize(("name", "profile"), EVERY)
def test_claims_name_conditions_that_run(name: str, profile: str) -> None:
    made = swept(name, profile)
    ran = {plan.spec.text for plan in made.plans}
    for claim in claims(read(name), profile):
        named = [claim.parameters.get(key, []) for key in ("condition", "reference", "conditions", "end")]
        for text in [text for value in named for text in (value if isinstance(value, list) else [value])]:
            assert any(run.startswith(text) for run in ran), f"{claim.text} {text}"


def test_flags_win_over_the_recipe() -> None:
    plans = expand("table9", [], {"dry_run": True, "limit": 2, "model": "random:tiny", "out": "here"})
    assert {(p.cell.settings.limit, p.cell.settings.model, p.cell.settings.out) for p in plans} == {
        (2, "random:tiny", "here")
    }
    assert (plans[0].given["recipe"], plans[0].given["profile"]) == ("table09", "paper")


def test_a_limit_does_not_shorten_a_probe() -> None:
    [probe] = expand_all("table8", [], {"dry_run": True, "limit": 20, "out": "here"}, None, "demo").probes
    assert (probe.settings.limit, probe.settings.out) == (1000, "here")


def test_the_folders_file_wins_over_a_profiles_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bcrbench.yaml").write_text("out: mine\n")
    assert {plan.cell.settings.out for plan in expand("table9", [], {}, None, "demo")} == {"mine"}


def test_typed_conditions_replace_a_recipes_in_every_cell() -> None:
    plans = expand("table12", ["dense"], {"dry_run": True})
    assert [(plan.spec.text, plan.cell.settings.agents) for plan in plans] == [("dense", 2), ("dense", 4)]
    with pytest.raises(UserError, match="has a probe only"):
        expand("table8", ["dense"], {"dry_run": True})


@pytest.mark.parametrize("short", ["table3", "table03"])
def test_a_number_may_lack_its_zero(short: str) -> None:
    assert find(short) == folder() / "table03.yaml"


@pytest.mark.parametrize(
    ("texts", "written"),
    [
        (["dense"], ["dense"]),
        (["a:b={1,2}"], ["a:b=1", "a:b=2"]),
        (["a:b={1,2},c={3,4}"], ["a:b=1,c=3", "a:b=1,c=4", "a:b=2,c=3", "a:b=2,c=4"]),
        (["a{1}", "a1"], ["a1"]),
    ],
)
def test_braces_stand_for_one_condition_each(texts: list[str], written: list[str]) -> None:
    assert list(spread(texts)) == written


@given(st.lists(st.integers(0, 9), min_size=1, unique=True), st.lists(st.integers(0, 9), min_size=1, unique=True))
def test_braces_cross(rhos: list[int], seeds: list[int]) -> None:
    made = spread([f"x:r={{{','.join(map(str, rhos))}}},s={{{','.join(map(str, seeds))}}}"])
    assert set(made) == {f"x:r={r},s={s}" for r in rhos for s in seeds} and len(made) == len(rhos) * len(seeds)


RECIPE = """
about: A test.
settings: {model: random:tiny, limit: 2}
cells:
  - {agents: [2, 3], ids: [q-0000, q-0001]}
  - agents: 4
    conditions: ["kvcomm:gamma={0.1,0.2}"]
conditions: [dense]
profiles:
  demo:
    settings: {limit: 1}
    cells: [{agents: 5}]
"""


def written(folder: Path, text: str, name: str = "r.yaml") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def cells_of(path: str, profile: str) -> list[tuple[Any, ...]]:
    return [(e.settings["agents"], e.settings["limit"], e.conditions) for e in entries(path, profile)]


def test_lists_are_cells_and_a_cell_may_have_its_own_conditions(tmp_path: Path) -> None:
    path = written(tmp_path, RECIPE)
    own = ("kvcomm:gamma=0.1", "kvcomm:gamma=0.2")
    assert cells_of(path, "paper") == [(2, 2, ("dense",)), (3, 2, ("dense",)), (4, 2, own)]
    assert cells_of(path, "demo") == [(5, 1, ("dense",))]
    assert entries(path, "paper")[0].settings["ids"] == ["q-0000", "q-0001"]


def test_a_recipe_has_the_runs_of_those_that_it_uses_first_and_once(tmp_path: Path) -> None:
    one = written(tmp_path, RECIPE, "one.yaml")
    two = written(tmp_path, f"uses: ['{one}', '{one}']\nsettings: {{agents: 1, limit: 3}}\nconditions: [placebo]\n")
    assert cells_of(two, "demo") == [(5, 1, ("dense",)), (1, 3, ("placebo",))]
    circle = written(tmp_path, f"uses: ['{tmp_path / 'c.yaml'}']\n", "c.yaml")
    with pytest.raises(UserError, match="uses: c -> c, expected no way back"):
        entries(circle, "paper")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("conditions: [dense]\n\nsetting: {}\n", "key in recipe r.yaml, line 3 'setting' (did you mean 'settings'?)"),
        ("conditions: dense\n", "recipe r.yaml, line 1: conditions: 'dense': expected `array | null`, got `str`"),
        ("settings: {task: quotes}\n", "conditions: none given"),
        ("conditions: []\n", "recipe r.yaml, line 1: conditions: []: expected `array` of length >= 1"),
        ("conditions: [dense]\ncells: []\n", "recipe r.yaml, line 2: cells: []: expected `array` of length >= 1"),
        ("conditions: [dense]\ncells:\n- agents: 2\n- 3\n", "recipe r.yaml, line 4: cells[1]: 3: expected `object`"),
        ("conditions: [dense, 3]\n", "conditions[1]: 3: expected `str`, got `int`"),
        ("conditions: [dense]\nsettings:\n  agent: 3\n", "setting in recipe r.yaml, line 3 'agent' (did you mean 'age"),
        ("conditions: [dense]\nsettings: {agents: 9}\n", "recipe r.yaml, line 2: agents=9: expected `int` <= 5"),
        ("conditions: [dense]\ncells:\n- limit: 1\n  agents: [2, 9]\n", "recipe r.yaml, line 4: agents=9: expected"),
        ("cells:\n- conditions: dense\n", "recipe r.yaml, line 2: cells[0].conditions: 'dense', expected a list"),
        ("conditions: [dense]\nprofiles:\n  dem: {}\n", "line 3 'dem' (did you mean 'demo'?)"),
        ("conditions: [dense]\nprofiles:\n  demo:\n    cell: []\n", "line 4 'cell' (did you mean 'cells'?)"),
        ("conditions: [dense]\nprofiles: {demo: {settings: {agents: 0}}}\n", "line 2: agents=0: expected `int` >= 1"),
        ("conditions: [dense]\nclaims:\n- {text: t, kind: belw}\n", "kind in recipe r.yaml, line 3 'belw' (did you me"),
        ("conditions: [dense]\nclaims:\n- {text: t, kinds: below}\n", "line 3 'kinds' (did you mean 'kind'?)"),
        ("conditions: [dense]\nclaims:\n- {kind: below}\n", "claims[0]: {'kind': 'below'}: object missing"),
        ("uses: [tabel03]\n", "unknown recipe 'tabel03' (did you mean 'table3'?)"),
        ("conditions: [densee]\n", "recipe r.yaml, line 1: unknown condition 'densee' (did you mean 'dense'?)"),
        ("conditions: [dense]\nprofile:\n  demo: {}\n", "recipe r.yaml, line 2 'profile' (did you mean 'profiles'?)"),
        ("conditions: [dense\n", "not YAML"),
        ("conditions:\n- dense\n- kvcomm:gama=1\n", "r.yaml, line 3: unknown parameter of condition 'kvcomm' 'gama'"),
        (
            "conditions: [dense]\nprofiles:\n  demo:\n    conditions:\n    - kvcomm:gamma={0,2}\n",
            "line 5: condition 'k",
        ),
        ("cells:\n- limit: 1\n  conditions: [kv]\n", "r.yaml, line 3: unknown condition 'kv'"),
        ("probe:\n  k: 2\n  segment: 3\n", "r.yaml, line 3: unknown option of probe units 'segment' (did you mean"),
        ("profiles: {paper: {conditions: [dense]}, demo: {probe: {k: 9}}}\n", "r.yaml, line 1: k=9: expected 1 to 8"),
        ("probe: {}\nconditions: [dense]\n", "r.yaml, line 1: probe: conditions stand beside it, expected one of the"),
        ("cells: [{conditions: [dense]}]\nprobe: {}\n", "line 2: probe: conditions stand beside it"),
        ("profiles:\n  paper: {conditions: [dense]}\n", "conditions of profile demo: none given"),
        (
            "conditions: [dense]\nclaims:\n- text: t\n  kind: below\n  parameters: {conditon: dense, reference: k}\n",
            "r.yaml, line 3 'conditon' (did you mean 'condition'?)",
        ),
        ("conditions: [dense]\nclaims:\n- {text: t, kind: below}\n", "recipe r.yaml, line 3: claim 'below'"),
        ("conditions: [dense]\nrenders:\n- '1'\n- '99'\n", "table or figure in recipe r.yaml, line 4 '99' (did you"),
        ("- dense\n", "list, expected a mapping"),
    ],
)
def test_a_wrong_recipe_is_told_in_one_line(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        check_recipe(written(tmp_path, text))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", names())
def test_a_recipe_that_ships_says_nothing_wrong(name: str) -> None:
    check_recipe(name)


def test_a_mistake_is_told_before_the_first_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "conditions: [dense]\nclaims:\n- {text: t, kind: below}\n")
    with pytest.raises(SystemExit, match="2"):
        main(["sweep", path, "--out", str(tmp_path / "out")])
    assert "recipe r.yaml, line 3: claim 'below'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_mistake_in_a_recipe_that_is_used_is_told_in_its_own_file(tmp_path: Path) -> None:
    used = written(tmp_path, "conditions:\n- dense\n- kvcomm:gama=1\n", "used.yaml")
    with pytest.raises(UserError, match="recipe used.yaml, line 3: unknown parameter"):
        check_recipe(written(tmp_path, f"uses: ['{used}']\n"))


@pytest.mark.parametrize(
    ("probe", "told"),
    [({"segment": 3}, "'segment' (did you mean 'segment_tokens'?)"), ({"k": 9}, "k=9"), ({"rho": "x"}, "float")],
)
def test_a_wrong_probe_is_told_in_one_line(probe: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as caught:
        options_of(probe)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_profiles_are_chosen_by_name_or_by_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [chosen(name) for name in PROFILES] == list(PROFILES)
    for size, name in ((0.0, "demo"), (24.0, "demo"), (80.0, "paper")):
        monkeypatch.setattr("bcrbench.sweep.profiles._largest_gb", lambda size=size: size)
        assert chosen("auto") == name
    with pytest.raises(UserError, match="unknown profile 'papr' .did you mean 'paper'"):
        chosen("papr")


DRY = """
import json, sys, time, socket
def refuse(*_): raise AssertionError("network")
socket.socket.connect = refuse
from bcrbench.cli.main import main
times = {}
for name, profile in json.loads(sys.argv[1]):
    start = time.process_time()
    try:
        main(["sweep", name, "--profile", profile, "--dry-run"])
    except SystemExit as stop:
        assert not stop.code, name
    times[name + " " + profile] = time.process_time() - start
print(json.dumps({"times": times, "loaded": [m for m in ("datasets", "safetensors.torch") if m in sys.modules]}))
"""


def test_a_dry_run_takes_under_three_seconds_without_the_network() -> None:
    arguments = [sys.executable, "-c", DRY, json.dumps(EVERY)]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    slow = {name: seconds for name, seconds in found["times"].items() if seconds >= 3}
    assert slow == {}, "of processor time; the first one loads libraries"
    assert found["loaded"] == []


def make(*words: str) -> str:
    done = subprocess.run(["make", "-n", *words], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_make_has_a_target_for_every_table() -> None:
    text = (ROOT / "Makefile").read_text()
    for name in TABLES:
        target = name.replace("table0", "table")
        assert target in text.partition("TABLES :=")[2].partition("\n")[0].split(), target


@pytest.mark.parametrize("target", ["table3", "table10", "figure2"])
def test_make_sweeps_grades_and_renders(target: str) -> None:
    said = make(target, "PROFILE=demo", "LIMIT=20", "MODEL=m", "EXECUTOR=ray", "OUT=o").replace('"', "")
    assert f"sweep {target} --profile" in said
    assert all(option in said for option in ("--limit 20", "--model m", "--executor ray", "o/"))
    assert "stats" in said and "outputs" in said


def test_make_saves_what_the_recipe_renders() -> None:
    assert "--recipe table3 --profile $profile --save outputs" in make("table3")


def test_the_hours_in_headers_and_docs_are_those_that_the_script_computes() -> None:
    spec = importlib.util.spec_from_file_location("gpu_hours", ROOT / "tests" / "bench" / "gpu_hours.py")
    assert spec is not None and spec.loader is not None
    hours = importlib.util.module_from_spec(spec)
    sys.modules["gpu_hours"] = hours  # dataclasses look their module up
    spec.loader.exec_module(hours)
    page = (ROOT / "docs" / "recipes.md").read_text()
    for name in TABLES:
        told = hours.of_recipes(name).told
        head = find(name).read_text(encoding="utf-8").partition("\nabout:")[0]
        assert told in head.replace("\n# ", " "), name
        counts = [len(swept(name, profile).plans) + len(swept(name, profile).probes) for profile in PROFILES]
        assert f"| `{name}` | {counts[0]} | {told.partition(' h')[0]} | {counts[1]} |" in page, name
    assert f"{hours.of_recipes(*TABLES).runs} runs, {hours.of_recipes(*TABLES).seconds / 3600:.0f} hours" in page
