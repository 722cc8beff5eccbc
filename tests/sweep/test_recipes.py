"""The recipes that ship: each parses, expands to runs without a model, and says what it is for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from bcrbench.conditions import parse
from bcrbench.errors import UserError
from bcrbench.sweep.grid import expand
from bcrbench.sweep.plan import Plan
from bcrbench.sweep.recipe import find, folder, names, read

DATA = Path(__file__).parents[1] / "data" / "gsm8k_rows.jsonl"
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def _plans(name: str, **flags: Any) -> list[Plan]:
    data = {"data": str(DATA)} if read(name).settings["task"] == "gsm8k" else {}
    return expand(name, [], {**data, **flags})


@pytest.mark.parametrize("name", names())
def test_a_recipe_becomes_runs_without_torch_doing_anything(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bcrbench.tasks.gsm8k.hub_rows", lambda hub, **_: pytest.fail(f"{hub} was fetched"))
    monkeypatch.setitem(sys.modules, "bcrbench.engine.model", None)  # importing it would raise
    recipe, plans = read(name), _plans(name)
    assert len(plans) == len(recipe.cells) * len(recipe.conditions)
    assert [plan.spec.text for plan in plans[: len(recipe.conditions)]] == [parse(c).text for c in recipe.conditions]
    assert plans[0].spec.text == ("dense" if "dense" in recipe.conditions else "kvcomm:gamma=1.0")
    assert recipe.about.endswith(".")
    assert find(name).read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize(
    ("name", "agents", "limit", "conditions"),
    [
        ("table3", [2, 3, 4, 5], 150, ["dense", "kvcomm:gamma=0.3"]),
        ("table6", [3], 300, ["dense", "kvcomm:gamma=0.3"]),
        ("table9", [3], 60, ["dense", *(f"kvcomm:gamma={gamma}" for gamma in (0.3, 0.5, 0.7, 1.0))]),
    ],
)
def test_the_papers_tables(name: str, agents: list[int], limit: int, conditions: list[str]) -> None:
    plans = _plans(name)
    settings = [plan.cell.settings for plan in plans[:: len(conditions)]]
    assert [one.agents for one in settings] == agents
    assert {(one.limit, one.model, one.task, one.topology, one.roles) for one in settings} == {
        (limit, LLAMA, "gsm8k", "full", "cycle")
    }
    assert [plan.spec.text for plan in plans] == conditions * len(agents)
    assert read(name).settings["data"] == "openai/gsm8k"


def test_table_10() -> None:
    plans = _plans("table10")
    assert list(dict.fromkeys(plan.cell.items[0].meta["symbols"] for plan in plans)) == [64, 512, 2048, 4096]
    settings = plans[0].cell.settings
    assert (settings.agents, settings.limit, settings.model, settings.twins) == (5, 12, LLAMA, True)
    assert {len(plan.cell.agents) for plan in plans} == {5}, "nobody decides"
    assert {plan.cell.max_new_tokens for plan in plans} == {512}


def test_flags_win_over_the_recipe() -> None:
    plans = _plans("table9", limit=2, model="random:tiny")
    assert {(plan.cell.settings.limit, plan.cell.settings.model) for plan in plans} == {(2, "random:tiny")}
    assert all(len(plan.cell.items) == 2 for plan in plans)
    assert plans[0].given["recipe"] == "table9"


@pytest.mark.parametrize("short", ["table3", "table03"])
def test_a_number_may_lack_its_zero(short: str) -> None:
    assert find(short) == folder() / "table03.yaml"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("conditions: [dense]\nsetting: {}\n", "unknown key in recipe r.yaml 'setting' (did you mean 'settings'?)"),
        ("conditions: dense\n", "conditions: str, expected list"),
        ("settings: {task: quotes}\n", "conditions: none given"),
        ("conditions: [dense]\ncells: [3]\n", "cells[0]: int, expected a mapping"),
        ("conditions: [dense]\nsettings: {agent: 3}\n", "unknown setting in recipe r 'agent' (did you mean 'agents'?)"),
        ("conditions: [dense]\nsettings: {agents: 9}\n", "recipe r: agents=9: expected `int` <= 5"),
        ("conditions: [dense\n", "not YAML"),
        ("- dense\n", "list, expected a mapping"),
    ],
)
def test_a_wrong_recipe_is_told_in_one_line(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        expand(str(path), [], {})
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
