"""Each recipe's runs are what its table looks for in the logs: condition, cell, items, roles."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from bcrbench.stats.condition import setting_of
from bcrbench.stats.paper_tables import table02, table05, table06, table07, table09, table10, table11, table12, wants
from bcrbench.stats.paper_tables.places import COUNTS, GAMMAS, ITEMS, Place
from bcrbench.stats.paper_tables.table10 import Kind, symbols_of
from bcrbench.stats.paper_tables.wants import Want, grid_wants
from bcrbench.sweep.grid import Sweep, expand_all
from bcrbench.sweep.plan import Plan

Wanted = tuple[Place, Want]


@cache
def swept(name: str, profile: str = "paper") -> Sweep:
    return expand_all(name, [], {"dry_run": True}, None, profile)


def arm(plan: Plan) -> Any:
    """What a table sees of a run, before it was made."""
    run: Any = SimpleNamespace(condition=plan.spec.text, effective=plan.spec.policy.effective())
    return SimpleNamespace(setting=setting_of(run))


def at(plan: Plan, place: Place) -> bool:
    settings = plan.cell.settings
    here = (settings.task, settings.agents, settings.roles.startswith("pin"), settings.limit)
    return here == (place.task, place.agents, place.pinned, place.n)


def grid(*names: str, counts: tuple[int, ...] = COUNTS, tasks: tuple[str, ...] = tuple(ITEMS)) -> list[Wanted]:
    found = []
    for task in tasks:
        own = grid_wants(task, GAMMAS.get(task, 0.3))
        found += [(Place(task, n, ITEMS[task]), own[name]) for n in counts for name in names or own]
    return found


def budgets(rhos: tuple[float, ...] = table11.BUDGETS) -> list[Wanted]:
    ends = [wants.kvcomm(table11.GAMMA), wants.dense()]
    swept_ = [wants.bcr("chunk", table11.GAMMA, "coin", rho=rho, seed=int(s)) for rho in rhos for s in table11.SEEDS]
    return [(table11.PLACE, want) for want in [*ends, *swept_]]


def layouts() -> list[Wanted]:
    caps = {2: (8, 16), 4: (2, 4)}  # the paper's dashes left out
    foot = tuple(name for _, name in table12.FOOT)
    return grid("single", *foot, counts=(2, 4), tasks=("gsm8k",)) + [
        (Place("gsm8k", n, 150), wants.bcr("grow", 0.3, cap=cap)) for n, own in caps.items() for cap in own
    ]


def listed(place: Place, rows: Any) -> list[Wanted]:
    return [(place, row[1]) for row in rows]


WANTED: dict[str, list[Wanted]] = {
    "table01": budgets((0.05, 0.2, 0.4)) + grid(counts=(4,)),
    "table02": listed(table02.PLACE, table02.ROWS),
    "table03": grid(),
    "table04": listed(table07.PLACE, table07.ROWS) + grid("dense", "kvcomm", "chunk", "grow", "single"),
    "table05": grid("blend-reuse", "blend-cost", "chunk")
    + [wanted for place in table05.PLACES for wanted in listed(place, table05.ROWS)]
    + [(p, wants.bcr("chunk", table05.GAMMA, "coin", seed=seed)) for p in table05.PLACES for seed in range(5)],
    "table06": [(table06.PLACE, wants.dense()), (table06.PLACE, wants.kvcomm(0.3))],
    "table07": listed(table07.PLACE, table07.ROWS),
    "table09": [(table09.PLACE, wants.dense())]
    + [(table09.PLACE, wants.kvcomm(gamma, strict=True)) for gamma in table09.GAMMAS],
    "table11": budgets(),
    "table12": layouts(),
    "table13": grid("dense", "kvcomm", "chunk", "grow", "single"),
    "table14": grid("blend-reuse", "blend-cost", "grow", "single", "chunk"),
    "table15": grid("blend-reuse", "blend-cost", "chunk", "grow", "single"),
    "figure2": listed(table02.PLACE, table02.ROWS),
}


@pytest.mark.parametrize("name", WANTED)
def test_every_row_of_a_table_has_its_run(name: str) -> None:
    plans = swept(name).plans
    missing = []
    for place, want in WANTED[name]:
        fitting = [arm(plan) for plan in plans if at(plan, place) and want.fits(arm(plan))]
        if not any(want.misses(found) == 0 for found in fitting):
            missing.append(f"{place.told}: {want.told}")
    assert missing == []


@pytest.mark.parametrize("name", ["table02", "table06", "table07", "table09", "table12"])
def test_a_recipe_runs_nothing_that_its_table_does_not_show(name: str) -> None:
    extra = [
        plan.spec.text
        for plan in swept(name).plans
        if not any(at(plan, place) and want.fits(arm(plan)) for place, want in WANTED[name])
    ]
    assert extra == ([] if name != "table06" else ["opengate:theta=0.5"]), "table 6 reads Table 2's runs"


def kinds(profile: str) -> dict[Kind, set[int | None]]:
    found: dict[Kind, set[int | None]] = {}
    for plan in swept("table10", profile).plans:
        setting, run = arm(plan).setting, SimpleNamespace(resolved={"data": plan.cell.settings.data})
        kernel = plan.cell.settings.kernel if setting.name == "bcr-chunk" else ""
        rho, select = (setting.get("rho"), setting.get("select")) if kernel else (0.0, "coin")
        found.setdefault(Kind(setting.name, kernel, rho, select), set()).add(symbols_of(run))  # type: ignore[arg-type]
    return found


def test_table_10_has_every_kernel_budget_and_length() -> None:
    there = kinds("paper")
    wanted = [kind for kind in table10.PAPER if kind.policy != "dense"]  # Dense is KVComm's twins
    assert {kind: there.get(kind) for kind in wanted} == {kind: set(table10.SYMBOLS) for kind in wanted}
    assert Kind("bcr-chunk", "flash", 0.2, "draft") in there, "what the draft costs"
    settings = swept("table10").plans[0].cell.settings
    assert (settings.agents, settings.limit, settings.twins, settings.warm_up) == (5, 12, True, 2)


def test_table_8_is_the_papers_probe() -> None:
    from bcrbench.probe.options import UnitOptions, options_of

    [probe] = swept("table08").probes
    assert options_of(probe.options) == UnitOptions(segment_tokens=2048, prompts=6)
    assert [one.options for one in swept("table04").probes] == [probe.options]


@pytest.mark.parametrize("agents", COUNTS)
def test_the_demos_grid_has_a_run_for_every_row(agents: int) -> None:
    plans = [plan for plan in swept("table03", "demo").plans if plan.cell.settings.agents == agents]
    for name, want in grid_wants("quotes", 0.3).items():
        [found] = [arm(plan) for plan in plans if want.fits(arm(plan))]
        assert want.misses(found) == (name == "chunk"), "B=8 in the place of 64"


@pytest.mark.parametrize("name", ["table02", "table05", "table07", "table09", "table11", "table12"])
def test_the_demo_has_a_run_for_every_row(name: str) -> None:
    plans = swept(name, "demo").plans
    rows = {want.told: want for place, want in WANTED[name] if place.pinned or name != "table05"}
    missing = [told for told, want in rows.items() if not any(want.fits(arm(plan)) for plan in plans)]
    assert missing == []
