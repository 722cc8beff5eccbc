"""Claims against made-up logs: each kind held, not held, not resolved, and without a log; and what recipes claim."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loglines import run_record
from papergrid import cell_log, items_of, save, twin_log

from bcrbench.conditions import parse
from bcrbench.errors import UserError
from bcrbench.runs.log import read_outcomes
from bcrbench.runs.schema import Rows, Stages, Twin
from bcrbench.stats.arms import make_arms
from bcrbench.stats.bootstrap import ratio_of_ratios
from bcrbench.stats.cells import Cell, group_arms
from bcrbench.stats.claims import KINDS
from bcrbench.stats.claims.judge import Claim, check, judge
from bcrbench.stats.claims.kind import Verdict
from bcrbench.stats.claims.places import meant
from bcrbench.stats.clustered import item_level
from bcrbench.sweep.recipe import PROFILES, claims, names, read

KVCOMM, CHUNK = "kvcomm:gamma=0.3", "bcr-chunk:gamma=0.3"
UNRESOLVED = "not resolved at this n"


def words(*counts: tuple[int, bool]) -> list[str]:
    """So many items solved, so many not, and so on."""
    return ["correct" if good else "wrong" for count, good in counts for _ in range(count)]


ALL, NONE = words((40, True)), words((40, False))
MOST = words((38, True), (2, False))


def cells_of(folder: Path) -> list[Cell]:
    found, _ = group_arms(make_arms([read_outcomes(path) for path in sorted(folder.glob("*.jsonl"))]))
    return found


def verdict(folder: Path, kind: str, **parameters: Any) -> Verdict:
    (found,) = judge([Claim("It is so.", kind, parameters)], cells_of(folder))
    assert "\n" not in found.line
    return found


def write(folder: Path, solved: dict[str, list[str]], **place: Any) -> Path:
    for condition, outcomes in solved.items():
        cell_log(folder, condition, outcomes=outcomes, **place)
    return folder


SIDES = [
    ("below", NONE, ALL, "held"), ("below", ALL, NONE, "not held"), ("below", MOST, ALL, UNRESOLVED),
    ("above", ALL, NONE, "held"), ("above", NONE, ALL, "not held"), ("above", ALL, MOST, UNRESOLVED),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "row", "reference", "expected"), SIDES)
def test_one_cell_is_decided_by_newcombes_interval(
    tmp_path: Path, kind: str, row: list[str], reference: list[str], expected: str
) -> None:
    write(tmp_path, {"dense": reference, KVCOMM: row})
    found = verdict(tmp_path, kind, condition=KVCOMM, reference="dense", agents=3)
    assert (found.verdict, found.n) == (expected, 40)
    assert "points [" in found.evidence
    assert "b/c" in found.evidence


def test_a_missing_log_is_named_with_its_place(tmp_path: Path) -> None:
    write(tmp_path, {"dense": ALL})
    for kind, rest in (("below", {}), ("level", {"margin": 0.05})):
        found = verdict(tmp_path, kind, condition=KVCOMM, reference="dense", agents=[3, 4], **rest)
        assert found.verdict == "no log"
        assert f"no log of {KVCOMM} (gsm8k, 3 agents; 4 agents)" in found.evidence
    assert verdict(tmp_path, "order", conditions=["dense", KVCOMM]).verdict == "no log"


def test_a_claim_of_several_places_holds_at_each_and_is_refuted_by_one(tmp_path: Path) -> None:
    write(tmp_path, {"dense": ALL, KVCOMM: NONE})
    write(tmp_path, {"dense": NONE, KVCOMM: ALL}, task="mmlu")
    sided = {"condition": KVCOMM, "reference": "dense"}
    assert verdict(tmp_path, "below", task="gsm8k", **sided).verdict == "held"
    assert verdict(tmp_path, "below", task=["gsm8k", "mmlu"], **sided).verdict == "not held"
    assert verdict(tmp_path, "below", task=["gsm8k", "humaneval"], **sided).verdict == "no log"
    assert verdict(tmp_path, "below", task=["mmlu", "humaneval"], **sided).verdict == "not held"


def test_items_that_ran_in_several_cells_count_once(tmp_path: Path) -> None:
    """Two items lost in each of four cells: eight pairs would be significant, two items cannot be."""
    for agents in (2, 3, 4, 5):
        write(tmp_path, {"dense": ALL, KVCOMM: MOST}, agents=agents)
    found = verdict(tmp_path, "below", condition=KVCOMM, reference="dense", agents=[2, 3, 4, 5])
    assert (found.verdict, found.n) == (UNRESOLVED, 40)
    assert "sign flip p 0.500, above in 0 and below in 4 of 4 pairings" in found.evidence
    assert "2, 3, 4, 5 agents" in found.evidence


def test_several_cells_have_the_direction_of_the_sign_flip_test(tmp_path: Path) -> None:
    lost = words((30, True), (10, False))
    for agents in (2, 3):
        write(tmp_path, {"dense": ALL, KVCOMM: lost}, agents=agents)
    sided = {"condition": KVCOMM, "reference": "dense"}
    assert verdict(tmp_path, "below", **sided).verdict == "held"
    assert verdict(tmp_path, "above", **sided).verdict == "not held"
    assert f"p {item_level([-2] * 10 + [0] * 30).p:.3f}" in verdict(tmp_path, "below", **sided).evidence


def test_every_seed_of_a_condition_counts(tmp_path: Path) -> None:
    coins = [f"bcr-chunk:gamma=0.3,select=coin,seed={seed}" for seed in range(3)]
    write(tmp_path, {CHUNK: ALL, **dict.fromkeys(coins, NONE), "bcr-chunk:gamma=0.3,rho=0.4,select=coin": ALL})
    found = verdict(tmp_path, "above", condition=CHUNK, reference="bcr-chunk:gamma=0.3,select=coin")
    assert found.verdict == "held"
    assert "above in 3 and below in 0 of 3 pairings" in found.evidence


MEANT = [
    ("dense", ["dense"]),
    ("dense:tokens=merged", ["dense:tokens=merged"]),
    ("kvcomm", ["kvcomm:gamma=0.3"]),
    ("kvcomm:gamma=1.0", ["kvcomm:gamma=1.0"]),
    ("kvcomm:gamma=0.3,capacity=5", ["kvcomm:gamma=0.3,capacity=5"]),
    ("bcr-chunk", ["bcr-chunk:gamma=0.3,B=8"]),
    ("bcr-chunk:gamma=0.3", []),
    ("bcr-chunk:gamma=0.3,B=8,select=coin", [f"bcr-chunk:gamma=0.3,select=coin,B=8{seed}" for seed in ("", ",seed=1")]),
    ("random", ["random:gamma=0.3,p=0.4,match=0.5"]),
    ("cacheblend:gamma=0.3,match=reuse:", ["cacheblend:gamma=0.3,match=reuse:0.5"]),
    ("cacheblend:gamma=0.3", []),
    ("opengate", []),
]


@pytest.mark.parametrize(("condition", "expected"), MEANT)
def test_a_condition_means_runs_that_differ_in_nothing_that_it_does_not_say(
    tmp_path: Path, condition: str, expected: list[str]
) -> None:
    there = dict.fromkeys(name for _, found in MEANT for name in found)
    for name in [*there, "bcr-chunk:gamma=0.3,rho=0.4,B=8"]:
        reused(tmp_path, name, ALL[:2], 1)
    (cell,) = cells_of(tmp_path)
    assert sorted(arm.condition for arm in meant(cell.arms, condition)) == sorted(expected)


def test_one_of_several_conditions_is_enough(tmp_path: Path) -> None:
    layouts = [CHUNK, "bcr-grow:gamma=0.3", "bcr-single:gamma=0.3"]
    write(tmp_path, {KVCOMM: NONE, CHUNK: NONE, "bcr-grow:gamma=0.3": ALL})
    sided = {"condition": layouts, "reference": KVCOMM}
    found = verdict(tmp_path, "above", **sided)
    assert found.verdict == "held"
    assert "bcr-grow:gamma=0.3, best of 3" in found.evidence
    assert "98.3 %" in found.evidence
    assert verdict(tmp_path, "above", condition=layouts[:1], reference="bcr-grow:gamma=0.3").verdict == "not held"
    assert verdict(tmp_path, "below", **sided).verdict == "no log"  # the third might be below


def test_of_several_conditions_all_must_be_on_the_other_side_to_refute(tmp_path: Path) -> None:
    write(tmp_path, {KVCOMM: ALL, CHUNK: NONE, "bcr-grow:gamma=0.3": NONE})
    sided = {"condition": [CHUNK, "bcr-grow:gamma=0.3"], "reference": KVCOMM}
    assert verdict(tmp_path, "above", **sided).verdict == "not held"
    cell_log(tmp_path, "bcr-grow:gamma=0.3", agents=4, outcomes=ALL)
    cell_log(tmp_path, CHUNK, agents=4, outcomes=NONE)
    cell_log(tmp_path, KVCOMM, agents=4, outcomes=ALL)
    assert verdict(tmp_path, "above", agents=4, **sided).verdict == UNRESOLVED


LEVELS = [(ALL, ALL, 0.15, "held"), (ALL, NONE, 0.15, "not held"), (ALL, MOST, 0.05, UNRESOLVED)]


@pytest.mark.parametrize(("row", "reference", "margin", "expected"), LEVELS)
def test_level_takes_the_whole_interval_within_the_margin(
    tmp_path: Path, row: list[str], reference: list[str], margin: float, expected: str
) -> None:
    write(tmp_path, {"dense": reference, KVCOMM: row})
    found = verdict(tmp_path, "level", condition=KVCOMM, reference="dense", margin=margin)
    assert found.verdict == expected
    assert f"margin {100 * margin:g}" in found.evidence


def test_equal_outcomes_in_several_cells_are_no_certainty(tmp_path: Path) -> None:
    for agents in (2, 3):
        write(tmp_path, {"dense": ALL, KVCOMM: ALL}, agents=agents)
    sided = {"condition": KVCOMM, "reference": "dense"}
    assert verdict(tmp_path, "level", margin=0.01, **sided).verdict == UNRESOLVED
    assert verdict(tmp_path, "level", margin=0.2, **sided).verdict == "held"


def test_order_pairs_each_condition_with_the_next(tmp_path: Path) -> None:
    half = words((20, True), (20, False))
    write(tmp_path, {"dense": ALL, KVCOMM: half, CHUNK: NONE})
    assert verdict(tmp_path, "order", conditions=["dense", KVCOMM, CHUNK]).verdict == "held"
    found = verdict(tmp_path, "order", conditions=["dense", CHUNK, KVCOMM])
    assert (found.verdict, found.n) == ("not held", 40)
    cell_log(tmp_path, "opengate:theta=0.5", outcomes=MOST)
    assert verdict(tmp_path, "order", conditions=["dense", "opengate:theta=0.5", KVCOMM]).verdict == UNRESOLVED


def reused(folder: Path, condition: str, outcomes: Sequence[str], reuse: int, **calls: Any) -> None:
    """A log whose calls of each item are reused in `reuse` of 4."""
    items = items_of(random.Random(condition), outcomes, 3, "gsm8k", **calls)
    for item in items:
        for place, call in enumerate(item.calls):
            call.served = "reuse" if place < reuse else "dense"
    cell = {"task": "gsm8k", "agents": 3, "roles": ["a", "b"], "items": "g"}
    record = run_record(
        condition, len(items), task="gsm8k", cell=cell, resolved={"roles": "cycle"},
        effective={} if condition == "dense" else {"tokens": "merged", "capacity": 20, "gamma": 0.3},
        items={"hash": "g", "count": len(items), "total": len(items)},
    )  # fmt: skip
    save(folder / f"{len(list(folder.iterdir())):03}.jsonl", [record, *items], "complete", len(items))


def test_line_is_about_residuals(tmp_path: Path) -> None:
    """A quarter of the reuse, a quarter of the loss: on the line; the whole loss: three quarters of the cost off it."""
    quarter = words((30, True), (10, False))
    reused(tmp_path, "dense", ALL, 0)
    reused(tmp_path, KVCOMM, NONE, 4)
    reused(tmp_path, "protect-root:gamma=0.3", quarter, 1)
    reused(tmp_path, "random:gamma=0.3,match=reuse:0.5", NONE, 1)
    near = verdict(tmp_path, "line", conditions=["protect-root"], within=0.3)
    assert near.verdict == "held"
    assert "0.0 points" in near.evidence
    assert verdict(tmp_path, "line", conditions=["protect-root"], within=0.05).verdict == UNRESOLVED
    off = verdict(tmp_path, "line", conditions=["protect-root", "random"], within=0.3)
    assert off.verdict == "not held"
    assert "random:gamma=0.3,match=reuse:0.5 -75.0 points" in off.evidence
    assert verdict(tmp_path, "line", conditions=["protect-leaf"], within=0.3).verdict == "no log"


def test_line_needs_an_end_that_reuses(tmp_path: Path) -> None:
    reused(tmp_path, "dense", ALL, 0)
    reused(tmp_path, KVCOMM, ALL, 0)
    reused(tmp_path, "protect-root:gamma=0.3", ALL, 0)
    found = verdict(tmp_path, "line", conditions=["protect-root"], within=0.3)
    assert found.verdict == UNRESOLVED
    assert "reused no call" in found.evidence


def test_rows_compares_budgets(tmp_path: Path) -> None:
    for condition, spent in ((CHUNK, 20), ("bcr-grow:gamma=0.3", 21), ("bcr-single:gamma=0.3", 40)):
        rows = Rows(cached=99, exact=40, predicted=59, recomputed=spent)
        reused(tmp_path, condition, ALL[:5], 4, rows=rows)
    sided = {"condition": "bcr-single", "reference": "bcr-chunk"}
    assert verdict(tmp_path, "rows", at_least=1.8, **sided).verdict == "held"
    assert verdict(tmp_path, "rows", at_least=2.1, **sided).verdict == "not held"
    assert verdict(tmp_path, "rows", at_most=1.9, **sided).verdict == "not held"
    assert verdict(tmp_path, "rows", conditions=["bcr-chunk", "bcr-grow"], within=1.12).verdict == "held"
    found = verdict(tmp_path, "rows", conditions=["bcr-chunk", "bcr-grow", "bcr-single"], within=1.12)
    assert found.verdict == "not held"
    assert "bcr-single:gamma=0.3 over bcr-chunk:gamma=0.3 2.00x" in found.evidence
    assert verdict(tmp_path, "rows", condition="cacheblend", reference="bcr-chunk", at_most=2).verdict == "no log"


def test_rows_at_the_edge_are_not_resolved(tmp_path: Path) -> None:
    cell_log(tmp_path, CHUNK, n=3)
    cell_log(tmp_path, "bcr-grow:gamma=0.3", n=3)
    sided = {"condition": "bcr-grow", "reference": "bcr-chunk"}
    value = verdict(tmp_path, "rows", at_most=9, **sided).evidence.partition("x [")[0].rpartition(" ")[2]
    assert verdict(tmp_path, "rows", at_most=float(value), **sided).verdict == UNRESOLVED


def test_a_run_that_repaired_nothing_has_no_budget(tmp_path: Path) -> None:
    reused(tmp_path, CHUNK, ALL[:5], 4)
    reused(tmp_path, "bcr-single:gamma=0.3", ALL[:5], 0, rows=Rows(cached=9, exact=9, predicted=0))
    found = verdict(tmp_path, "rows", conditions=["bcr-chunk", "bcr-single"], within=1.2)
    assert found.verdict == UNRESOLVED
    assert "no repaired call of bcr-single" in found.evidence


def timed(folder: Path, factors: Sequence[float]) -> None:
    """A CopyMachine run whose twins take so many times as long, an item each."""
    twin_log(folder, "kvcomm:gamma=1.0", 64)
    (path,) = folder.iterdir()
    run = read_outcomes(path).run
    items = items_of(random.Random(0), ["ungraded"] * len(factors), 5, "copy", served="reuse", ttft_ms=10.0)
    for item, factor in zip(items, factors, strict=True):
        for call in item.calls:
            call.twin = Twin(ttft_ms=10.0 * factor, e2e_ms=1.0, tokens=1, first=False, ms=Stages())
    items[0].calls[0].warm_up, items[0].calls[0].ttft_ms = True, 1e6
    save(path, [run, *items], "complete", len(items))


FASTER = [(3.0, "held"), (3.9, UNRESOLVED), (5.0, "not held")]


@pytest.mark.parametrize(("ratio", "expected"), FASTER)
def test_faster_takes_pairs_of_a_call_and_its_twin(tmp_path: Path, ratio: float, expected: str) -> None:
    timed(tmp_path, [3.5, 4.0, 4.5, 3.8])
    found = verdict(tmp_path, "faster", condition="kvcomm:gamma=1.0", ratio=ratio, symbols=64, kernel="flash")
    assert found.verdict == expected
    assert "23 calls" in found.evidence  # six an item, less the warm-up


def test_faster_names_the_log_that_is_missing(tmp_path: Path) -> None:
    timed(tmp_path, [3.0, 4.0])
    for place in ({"symbols": 512}, {"symbols": 64, "kernel": "sdpa"}):
        found = verdict(tmp_path, "faster", condition="kvcomm:gamma=1.0", ratio=2, **place)
        assert found.verdict == "no log"
        assert "no log of kvcomm:gamma=1.0" in found.evidence


def test_runs_that_are_not_whole_are_marked(tmp_path: Path) -> None:
    write(tmp_path, {"dense": ALL, KVCOMM: NONE}, status="cancelled", items={"limit": 40, "total": 1319})
    found = verdict(tmp_path, "below", condition=KVCOMM, reference="dense")
    assert "n 40 of 1319" in found.evidence
    assert f"{KVCOMM} was cancelled, dense was cancelled" in found.evidence


def test_a_run_that_stopped_early_is_no_pair(tmp_path: Path) -> None:
    cell_log(tmp_path, "dense", outcomes=ALL)
    cell_log(tmp_path, KVCOMM, outcomes=NONE[:9], size=40, status="cancelled")
    found = verdict(tmp_path, "below", condition=KVCOMM, reference="dense")
    assert found.verdict == "no log"
    assert "is not paired with dense" in found.evidence


def test_roles_cycle_unless_a_claim_pins_them(tmp_path: Path) -> None:
    write(tmp_path, {"dense": ALL, KVCOMM: NONE})
    write(tmp_path, {"dense": NONE, KVCOMM: ALL}, pinned=True)
    sided = {"condition": KVCOMM, "reference": "dense"}
    assert verdict(tmp_path, "below", **sided).verdict == "held"
    assert verdict(tmp_path, "below", pinned=True, **sided).verdict == "not held"


def test_the_size_that_a_claim_names_is_taken(tmp_path: Path) -> None:
    write(tmp_path, {"dense": ALL, KVCOMM: ALL})
    write(tmp_path, {"dense": ALL[:30], KVCOMM: NONE[:30]})
    sided = {"condition": KVCOMM, "reference": "dense"}
    assert verdict(tmp_path, "below", items=30, **sided).n == 30
    assert verdict(tmp_path, "below", **sided).n == 40


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=25), margin=st.floats(0.01, 0.5))
def test_verdicts_agree_with_each_other(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[bool, bool]], margin: float
) -> None:
    """The two sides exclude each other, swapping the conditions swaps them, and a wider margin never loses a level."""
    folder = tmp_path_factory.mktemp("logs")
    write(folder, {"dense": words(*((1, a) for a, _ in pairs)), KVCOMM: words(*((1, b) for _, b in pairs))})
    one = {"condition": KVCOMM, "reference": "dense"}
    other = {"condition": "dense", "reference": KVCOMM}
    below, above = (verdict(folder, kind, **one).verdict for kind in ("below", "above"))
    assert {below, above} in ({"held", "not held"}, {UNRESOLVED})
    assert below == verdict(folder, "above", **other).verdict
    levels = [verdict(folder, "level", margin=size, **one).verdict for size in (margin, margin + 0.2)]
    order = ["not held", UNRESOLVED, "held"]
    assert order.index(levels[0]) <= order.index(levels[1])


@settings(max_examples=20, deadline=None)
@given(
    spent=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5)), min_size=2, max_size=10), factor=st.integers(2, 5)
)
def test_a_ratio_of_ratios_scales(spent: list[tuple[int, int]], factor: int) -> None:
    one = [(float(rows), float(calls)) for rows, calls in spent]
    more = [(factor * rows, calls) for rows, calls in one]
    found = ratio_of_ratios(more, one, paired=True)
    assert found.value == pytest.approx(factor)
    assert [found.low, found.high] == pytest.approx([factor, factor])
    apart = ratio_of_ratios(more, one, paired=False)
    assert apart.low is not None
    assert apart.high is not None
    assert apart.low <= factor * 1.0000001
    assert apart.high >= factor * 0.9999999


WRONG = [
    ("below", {"condition": "dense", "referense": "dense"}, "did you mean 'reference'"),
    ("level", {"condition": "dense", "reference": "dense", "margin": 0}, "margin"),
    ("level", {"condition": "dense", "reference": "dense"}, "margin"),
    ("order", {"conditions": ["dense"]}, "conditions"),
    ("below", {"condition": 3, "reference": "dense"}, "condition"),
    ("rows", {"condition": "a", "reference": "b"}, "at_least or at_most"),
    ("rows", {"conditions": ["a", "b"], "within": 2, "at_most": 3}, "nothing of both"),
    ("belo", {}, "did you mean 'below'"),
]


@pytest.mark.parametrize(("kind", "parameters", "told"), WRONG)
def test_a_mistake_in_a_claim_is_one_line(kind: str, parameters: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told) as caught:
        check(Claim("x", kind, parameters, "recipe table03.yaml, line 9"))
    assert "\n" not in str(caught.value)
    assert kind == "belo" or "recipe table03.yaml, line 9" in str(caught.value)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", names())
def test_every_claim_of_every_recipe_can_be_decided(name: str, profile: str) -> None:
    """Parameters fit the kind, and conditions are conditions; one that ends in `:` is the beginning of one."""
    for claim in claims(read(name), profile):
        asked: Any = check(Claim(claim.text, claim.kind, claim.parameters, name))
        found = [getattr(asked, key, None) for key in ("condition", "reference", "conditions", "end")]
        for value in found:
            for condition in value if isinstance(value, list) else [value]:
                if condition is not None and not condition.endswith(":"):
                    parse(condition)


def test_what_a_condition_string_always_names_is_known() -> None:
    """Or no claim would find the runs of a policy whose string names more than the claim."""
    from bcrbench.conditions import settings as parameters
    from bcrbench.reuse.policies import POLICIES
    from bcrbench.stats.claims import places
    from bcrbench.stats.condition import usual

    for name in POLICIES.names():
        always = {spot.name for spot in parameters(POLICIES.get(name)) if spot.metadata["shown"]}
        assert always <= {*places._NAMED, *places._FREE, *usual(name)}


def test_every_kind_of_the_schema_is_there() -> None:
    from typing import get_args

    from bcrbench.sweep.recipe import Kind

    assert set(get_args(Kind)) == set(KINDS.names())
