"""Axes: flags of several values become cells or conditions, with a recipe and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcrbench.conditions import has, parse, with_value
from bcrbench.errors import UserError
from bcrbench.sweep.axes import cells, conditions
from bcrbench.sweep.grid import expand
from bcrbench.sweep.plan import Plan

RATES = st.lists(st.floats(0, 1), min_size=1, max_size=4, unique=True).map(lambda found: [str(rate) for rate in found])


def shown(plans: list[Plan]) -> list[tuple[int | None, str]]:
    """Symbols and condition of each run."""
    return [(plan.cell.items[0].meta.get("symbols"), plan.spec.text) for plan in plans]


def test_symbols_and_rho_make_the_same_runs_with_a_recipe_and_without() -> None:
    axes = {"symbols": "64,512", "rho": "0.1,0.3", "gamma": None}
    with_recipe = expand("table10", [], {"model": "random:tiny"}, axes)
    rows = ["kvcomm:gamma=1.0"]
    rows += [f"bcr-chunk:gamma=1.0,rho={rho}{coin}" for coin in (",select=coin", "") for rho in (0.1, 0.3)]
    assert shown(with_recipe) == [(symbols, row) for symbols in (64, 512) for row in rows]
    assert {len(plan.cell.items) for plan in with_recipe} == {12}
    alone = expand(None, [], {"model": "random:tiny"}, {**axes, "gamma": "1.0"})
    rows = ["dense", "kvcomm:gamma=1.0", "bcr-chunk:gamma=1.0,rho=0.1", "bcr-chunk:gamma=1.0,rho=0.3"]
    assert shown(alone) == [(symbols, row) for symbols in (64, 512) for row in rows]
    assert {plan.cell.task.name for plan in alone} == {"copymachine"}


def test_gamma_alone_is_dense_and_kvcomm_at_each() -> None:
    plans = expand(None, [], {}, {"gamma": "0.3, 1.0"})
    assert [plan.spec.text for plan in plans] == ["dense", "kvcomm:gamma=0.3", "kvcomm:gamma=1.0"]


def test_no_axis_leaves_everything_as_it_was() -> None:
    axes = {"symbols": None, "gamma": None, "rho": None}
    assert [plan.spec.text for plan in expand("demo", [], {}, axes)] == [p.spec.text for p in expand("demo", [], {})]
    assert [plan.spec.text for plan in expand(None, [], {}, axes)] == ["dense", "kvcomm:gamma=0.3"]


@settings(max_examples=12)
@given(RATES, RATES)
def test_a_condition_axis_varies_every_condition_that_has_it_and_no_other(gammas: list[str], rhos: list[str]) -> None:
    base = ["dense", "opengate:theta=0.7", "bcr-grow:cap=32,rho=0.9", "bcr-grow:cap=32,rho=0.8"]
    made = conditions(base, {"gamma": gammas, "rho": rhos})
    assert len(made) == len(set(made)) == 1 + len(gammas) + len(gammas) * len(rhos)
    policies: list[Any] = [parse(text).policy for text in made if text.startswith("bcr-grow")]
    assert {(str(p.gamma), str(p.rho)) for p in policies} == {(g, r) for g in gammas for r in rhos}
    assert {p.cap for p in policies} == {32}
    assert all("theta=0.7" in text for text in made if text.startswith("opengate"))


@given(st.lists(st.sampled_from("12345"), min_size=1, unique=True))
def test_a_setting_axis_takes_the_place_of_its_keys_and_crosses_the_rest(values: list[str]) -> None:
    base = [{"agents": n, "data": f"symbols={s}"} for n in (2, 5) for s in (7, 8)]
    made = cells(base, {"symbols": values})
    assert [(cell["agents"], cell["data"]) for cell in made] == [(n, f"symbols={v}") for n in (2, 5) for v in values]


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
        ({"symbols": ""}, {}, "symbols=': expected symbols=1 to"),
        ({"symbols": "64"}, {"data": "symbols=65"}, "--data 'symbols=65': --symbols sets it to 'symbols=64'"),
        ({"symbols": "64"}, {"task": "quotes"}, "--task 'quotes': --symbols sets it to 'copymachine'"),
        ({"rho": "2"}, {}, "rho=2: expected 0.0 to 1.0"),
        ({"rho": "0.1,,0.2"}, {}, "'rho=', expected key=value"),
    ],
)
def test_a_wrong_axis_is_told_in_one_line(axes: dict[str, str], flags: dict[str, str], told: str) -> None:
    with pytest.raises(UserError) as caught:
        expand(None, [], flags, axes)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_an_axis_that_no_condition_has_is_refused() -> None:
    with pytest.raises(UserError, match="--rho '0.1': no condition of dense, kvcomm has rho"):
        expand(None, ["dense", "kvcomm"], {}, {"rho": "0.1"})


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
