"""Axes: flags of several values become cells or conditions, with a recipe and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcrbench.conditions import has, layout_of, parse, with_layout, with_value
from bcrbench.errors import UserError
from bcrbench.sweep.axes import AXES, ConditionAxis, SettingAxis, cells, conditions, starts
from bcrbench.sweep.grid import expand
from bcrbench.sweep.plan import Plan
from bcrbench.sweep.recipe import Entry

RATES = st.lists(st.floats(0, 1), min_size=1, max_size=4, unique=True).map(lambda found: [str(rate) for rate in found])


def shown(plans: list[Plan]) -> set[tuple[int | None, str]]:
    """Symbols and condition of each run."""
    found = [(plan.cell.items[0].meta.get("symbols"), plan.spec.text) for plan in plans]
    assert len(set(found)) == len(found)
    return set(found)


def texts(plans: list[Plan]) -> list[str]:
    return [plan.spec.text for plan in plans]


def test_symbols_and_rho_make_the_same_runs_with_a_recipe_and_without() -> None:
    axes = {"symbols": "64,512", "rho": "0.1,0.3", "gamma": None}
    with_recipe = expand("table10", [], {"model": "random:tiny", "kernel": "sdpa"}, axes)
    rows = ["kvcomm:gamma=1.0"]
    rows += [f"bcr-chunk:gamma=1.0,rho={rho}{coin}" for coin in (",select=coin", "") for rho in (0.1, 0.3)]
    assert shown(with_recipe) == {(symbols, row) for symbols in (64, 512) for row in rows}
    assert {len(plan.cell.items) for plan in with_recipe} == {12}
    alone = expand(None, [], {"model": "random:tiny"}, {**axes, "gamma": "1.0"})
    rows = ["dense", "kvcomm:gamma=1.0", "bcr-chunk:gamma=1.0,rho=0.1", "bcr-chunk:gamma=1.0,rho=0.3"]
    assert shown(alone) == {(symbols, row) for symbols in (64, 512) for row in rows}
    assert {plan.cell.task.name for plan in alone} == {"copymachine"}


def test_gamma_alone_is_dense_and_kvcomm_at_each() -> None:
    assert texts(expand(None, [], {}, {"gamma": "0.3, 1.0"})) == ["dense", "kvcomm:gamma=0.3", "kvcomm:gamma=1.0"]


def test_no_axis_leaves_everything_as_it_was() -> None:
    axes = dict.fromkeys(AXES)
    assert texts(expand("demo", [], {}, axes)) == texts(expand("demo", [], {}))
    assert texts(expand(None, [], {}, axes)) == ["dense", "kvcomm:gamma=0.3"]


@settings(max_examples=12)
@given(RATES, RATES)
def test_a_condition_axis_varies_every_condition_that_has_it_and_no_other(gammas: list[str], rhos: list[str]) -> None:
    base = ("dense", "opengate:theta=0.7", "bcr-grow:cap=32,rho=0.9", "bcr-grow:cap=32,rho=0.8")
    [entry] = conditions([Entry("r", {}, base)], {"gamma": gammas, "rho": rhos})
    made = entry.conditions
    assert len(made) == len(set(made)) == 1 + len(gammas) + len(gammas) * len(rhos)
    policies: list[Any] = [parse(text).policy for text in made if text.startswith("bcr-grow")]
    assert {(str(p.gamma), str(p.rho)) for p in policies} == {(g, r) for g in gammas for r in rhos}
    assert {p.cap for p in policies} == {32}
    assert all("theta=0.7" in text for text in made if text.startswith("opengate"))


def test_a_layout_changes_the_name_and_keeps_what_both_have() -> None:
    base = ("dense", "bcr-chunk:gamma=0.7,B=8,select=coin,seed=3")
    [entry] = conditions([Entry("r", {}, base)], {"layout": ["grow", "single", "chunk"]})
    kept = "gamma=0.7,select=coin,seed=3"
    assert entry.conditions == ("dense", f"bcr-grow:{kept}", f"bcr-single:{kept}", f"bcr-chunk:{kept},B=8")
    with pytest.raises(UserError, match="unknown layout 'chonk' .did you mean 'chunk'"):
        with_layout("bcr-grow", "chonk")


@given(st.sampled_from(["chunk", "grow", "single"]), st.sampled_from(["chunk", "grow", "single"]), st.floats(0, 1))
def test_layouts_can_be_changed_back(first: str, second: str, rho: float) -> None:
    text = parse(f"bcr-{first}:rho={rho},k=3").text
    there = with_layout(text, second)
    assert layout_of(there) == second and with_layout(there, first) == text


@given(st.lists(st.sampled_from("12345"), min_size=1, unique=True))
def test_a_setting_axis_takes_the_place_of_its_keys_and_crosses_the_rest(values: list[str]) -> None:
    base = [Entry("r", {"agents": n, "data": f"symbols={s}"}, ("dense",)) for n in (2, 5) for s in (7, 8)]
    made = [(entry.settings["agents"], entry.settings["data"]) for entry in cells(base, {"symbols": values})]
    assert made == [(n, f"symbols={v}") for n in (2, 5) for v in values]


def test_cells_with_conditions_of_their_own_stay_apart() -> None:
    base = [Entry("r", {"agents": n}, (text,)) for n, text in ((2, "dense"), (3, "dense"), (3, "kvcomm"))]
    made = [(e.settings["agents"], *e.conditions) for e in cells(base, {"agents": ["4", "5"]})]
    assert made == [(4, "dense"), (5, "dense"), (4, "kvcomm"), (5, "kvcomm")]


@pytest.mark.parametrize(
    ("axis", "value", "found"),
    [
        ("agents", "2,5", {("dense", 2), ("dense", 5), ("kvcomm:gamma=0.3", 2), ("kvcomm:gamma=0.3", 5)}),
        ("seeds", "0,7", {("dense", 0), ("dense", 7), ("kvcomm:gamma=0.3", 0), ("kvcomm:gamma=0.3", 7)}),
        ("topology", "chain", {("dense", "chain"), ("kvcomm:gamma=0.3", "chain")}),
    ],
)
def test_a_setting_axis_without_a_recipe(axis: str, value: str, found: set[tuple[str, Any]]) -> None:
    key = {"seeds": "seed"}.get(axis, axis)
    plans = expand(None, [], {"limit": 2}, {axis: value})
    assert {(plan.spec.text, getattr(plan.cell.settings, key)) for plan in plans} == found


def test_agents_on_the_command_line_take_the_place_of_a_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    from bcrbench.cli.main import main

    with pytest.raises(SystemExit) as stop:
        main(["sweep", "table3", "--profile", "demo", "--agents", "2,4", "--conditions", "dense", "--dry-run"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "2 runs; nothing was run" in out and "2 agents" in out and "4 agents" in out
    assert "3 agents" not in out


@pytest.mark.parametrize("name", [name for name, axis in AXES.items() if isinstance(axis, ConditionAxis)])
def test_every_condition_axis_has_conditions_to_start_from(name: str) -> None:
    of_kind = {"NAME": {"layout": "grow", "select": "coin"}.get(name), "N": "9", "K": "3"}
    value = [of_kind.get(AXES[name].metavar.partition(",")[0]) or "0.5"]
    base = [Entry("flags", {}, tuple(starts({name: value})))]
    [entry] = conditions(base, {name: value})
    assert entry.conditions[0] == "dense" or name == "rho"
    assert entry != base[0], "something varied"
    assert all(parse(text) for text in entry.conditions)


@pytest.mark.parametrize("name", AXES)
def test_every_axis_is_an_option_of_sweep_once_and_explained(name: str) -> None:
    from bcrbench.cli.sweep import sweep

    [option] = [parameter for parameter in sweep.params if parameter.name == name]
    assert option.opts == [f"--{name}"] and option.help  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["kvcomm", "bcr-chunk:B=8", "random:p=0.5,gamma=0.7"])
def test_a_value_is_set_and_nothing_else(text: str) -> None:
    before: Any = parse(text).policy
    after: Any = parse(with_value(text, "gamma", "0.125")).policy
    assert has(text, "gamma") and after.gamma == 0.125
    assert {**after.effective(), "gamma": before.gamma} == before.effective()


@pytest.mark.parametrize(
    ("axes", "flags", "told"),
    [
        ({"symbols": "0"}, {}, "symbols=0': expected symbols=1 to"),
        ({"symbols": "64,x"}, {}, "symbols=x': expected symbols=1 to"),
        ({"symbols": ""}, {}, "--symbols '': an empty value, expected S,S"),
        ({"symbols": "64"}, {"data": "symbols=65"}, "--data 'symbols=65': --symbols sets it to 'symbols=64'"),
        ({"symbols": "64"}, {"task": "quotes"}, "--task 'quotes': --symbols sets it to 'copymachine'"),
        ({"seeds": "1"}, {"seed": 2}, "--seed 2: --seeds sets it to 1"),
        ({"agents": "x"}, {}, "--agents 'x': expected whole numbers"),
        ({"agents": "9"}, {}, "flags: agents=9: expected `int` <= 5"),
        ({"topology": "ring"}, {}, "unknown topology 'ring'"),
        ({"layout": "chonk"}, {}, "unknown layout 'chonk'"),
        ({"chunk": "0"}, {}, "B=0: expected 1 to"),
        ({"rho": "2"}, {}, "rho=2: expected 0.0 to 1.0"),
        ({"rho": "0.1,,0.2"}, {}, "an empty value, expected R,R"),
    ],
)
def test_a_wrong_axis_is_told_in_one_line(axes: dict[str, str], flags: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as caught:
        expand(None, [], flags, axes)
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("axis", "value"), [("rho", "0.1"), ("layout", "grow"), ("theta", "0.5")])
def test_an_axis_that_no_condition_has_is_refused(axis: str, value: str) -> None:
    with pytest.raises(UserError, match=f"--{axis} '{value}': no condition of dense, kvcomm has {axis}"):
        expand(None, ["dense", "kvcomm"], {}, {axis: value})


def test_the_command_line_refuses_a_wrong_length_before_it_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from bcrbench.cli.main import main

    for value in ("0", "x"):
        with pytest.raises(SystemExit) as stop:
            main(
                ["sweep", "table10", "--symbols", f"64,{value}", "--model", "random:tiny", "--out", str(tmp_path / "o")]
            )
        assert stop.value.code == 2
        err = capsys.readouterr().err
        assert f"symbols={value}" in err and err.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_axes_of_settings_are_settings() -> None:
    from bcrbench.settings import Settings

    decided = {key for axis in AXES.values() if isinstance(axis, SettingAxis) for key in axis.cell("1")}
    assert decided <= set(Settings.__struct_fields__)


@pytest.mark.parametrize("name", ["cacheblend", "random"])
@given(
    st.sampled_from(["gamma", "rho", "chunk", "k", "select", "capacity", "layout"]),
    st.sampled_from(["bcr-chunk:gamma=0.3,B=8", "bcr-chunk:gamma=0.7,B=8,rho=0.3"]),
    st.integers(1, 3),
)
def test_what_a_condition_is_matched_to_is_made_with_the_same_values(
    name: str, axis: str, base: str, count: int
) -> None:
    """Else the sweep would end with runs whose counterpart nobody made."""
    offered = {"gamma": "0.1,0.5,1.0", "rho": "0.1,0.5,0.6", "select": "coin,query,epic", "layout": "grow,single,chunk"}
    values = offered.get(axis, "5,6,8").split(",")[:count]
    matched = f"{name}:match=reuse:{base.replace(',', '+')}"
    [entry] = conditions([Entry("r", {}, (base, matched, "random:match=0.5"))], {axis: values})
    made = [parse(text).text for text in entry.conditions]
    policies: list[Any] = [parse(text).policy for text in made]
    named = [
        parse(policy.match.removeprefix("reuse:").replace("+", ",")).text
        for policy in policies
        if "reuse:bcr" in getattr(policy, "match", "")
    ]
    assert len(set(named)) == count and set(named) <= set(made)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("text", [",", "", " ", "0.3,,0.5", "0.3,"])
def test_an_empty_value_is_a_mistake_of_its_flag(axis: str, text: str) -> None:
    with pytest.raises(UserError, match=f"--{axis} .*: an empty value"):
        expand(None, [], {}, {axis: text})


def test_an_axis_of_conditions_over_a_probe_says_that_there_are_none() -> None:
    with pytest.raises(UserError, match="--gamma '0.3': no condition is there"):
        expand("table8", [], {}, {"gamma": "0.3"}, "demo")
