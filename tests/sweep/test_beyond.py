"""Beyond the paper's axes: orders of items, pools filled first, budgets that shrink, and all of it resumed."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planned import records, timeless

from bcrbench.conditions import parse
from bcrbench.errors import RunFailed, UserError
from bcrbench.reuse.policies.give_up import matching
from bcrbench.runs.log import read_log
from bcrbench.runs.schema import Call, ItemRecord
from bcrbench.settings import resolve
from bcrbench.sweep.execute import Models, execute
from bcrbench.sweep.grid import expand
from bcrbench.sweep.item_order import order_of
from bcrbench.sweep.plan import Plan, plan
from bcrbench.tasks import TASKS
from bcrbench.tasks.quotes import BUNDLED

SHORT = {"model": "random:tiny", "data": "goods=3", "limit": 3, "max_new_tokens": 5, "agents": 2}
MODELS = Models()
WARM = "kvcomm:gamma=1.0,capacity=3,window=2,warm=4"
COIN = "bcr-single:gamma=1.0,rho=0.3,select=coin,warm=3"


def planned(out: Path | str, condition: str, **changes: Any) -> Plan:
    settings, given_ = resolve([("test", {**SHORT, "out": str(out), **changes})])
    [made] = plan(settings, [condition], given_)
    return made


def carried(out: Path, condition: str, **changes: Any) -> Path:
    """A run's log."""
    return execute(planned(out, condition, **changes), MODELS, lambda line: None)


def items(path: Path) -> list[ItemRecord]:
    return list(read_log(path).items)


def calls(path: Path) -> list[Call]:
    return [call for item in items(path) for call in item.calls]


def moved(found: list[ItemRecord]) -> list[Any]:
    """Items without times and without their place."""
    return [
        {key: value for key, value in item.items() if key != "index"} for item in timeless(msgspec.to_builtins(found))
    ]


@cache
def all_ids(data: str = "goods=3") -> list[str]:
    return [item.id for item in TASKS.get("quotes")().items(data)]


# Orders


@given(st.lists(st.integers()), st.integers(0, 999_999_999))
def test_an_order_permutes_and_depends_on_its_seed_only(found: list[int], seed: int) -> None:
    made = order_of(f"shuffle:{seed}")(found)
    assert sorted(made) == sorted(found) and made == order_of(f"shuffle:{seed}")(found)
    places = order_of(f"shuffle:{seed}")(range(len(found)))
    assert made == [found[place] for place in places]
    assert order_of("task")(found) == found


def test_an_order_is_the_same_for_ever() -> None:
    assert order_of("shuffle:1")(range(8)) == sorted(range(8), key=_draws(1, 8).__getitem__)
    assert len({tuple(order_of(f"shuffle:{seed}")(range(8))) for seed in range(40)}) > 35


def _draws(seed: int, count: int) -> list[float]:
    dice = Random(f"bcrbench order {seed}")
    return [dice.random() for _ in range(count)]


@pytest.mark.parametrize("text", ["Task", "shuffle", "shuffle:", "shuffle:-1", "shuffle:1.5", "shuffle:x", "reverse"])
def test_another_order_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="order=.*expected task, or shuffle:SEED"):
        planned("o", "dense", order=text)


@pytest.mark.parametrize("choice", [{"limit": 5}, {"limit": None, "ids": all_ids()[2:9:2]}])
def test_a_shuffle_takes_the_same_items_in_another_order(choice: dict[str, Any]) -> None:
    usual, other = (planned("o", "dense", order=order, **choice).cell for order in ("task", "shuffle:3"))
    assert {item.hash for item in usual.items} == {item.hash for item in other.items}
    assert usual.items != other.items and usual.items_hash != other.items_hash


def test_a_log_says_its_order_and_another_order_is_another_cell(tmp_path: Path) -> None:
    logs = [read_log(carried(tmp_path, "dense", order=order)) for order in ("task", "shuffle:2")]
    assert [log.run.items["order"] for log in logs] == ["task", "shuffle:2"]
    assert logs[0].run.cell != logs[1].run.cell and logs[0].run.fingerprint != logs[1].run.fingerprint
    assert sorted(item.item_hash for item in logs[0].items) == sorted(item.item_hash for item in logs[1].items)
    answers = [{item.id: item.text for item in log.items} for log in logs]
    assert answers[0] == answers[1], "Dense keeps nothing, so no order changes its answers"


# Pools that others fill


def test_a_filled_pool_is_as_if_those_items_had_run_before(tmp_path: Path) -> None:
    """The definition: the run's items follow the others', under the same policy."""
    first, spare = all_ids()[4:8], all_ids()[8:11]
    for number, condition in enumerate(("kvcomm:gamma=1.0,capacity=3,window=2", COIN.removesuffix(",warm=3"))):
        chosen: dict[str, Any] = {"limit": None, "data": _reordered(tmp_path, [*spare, *first])}
        before = items(carried(tmp_path / f"{number}b", condition, **chosen))
        warm = items(carried(tmp_path / f"{number}w", f"{condition},warm=3", limit=None, ids=first))
        assert [item.id for item in warm] == first
        assert moved(before)[3:] == moved(warm)
        cold = items(carried(tmp_path / f"{number}c", condition, limit=None, ids=first))
        assert moved(cold) != moved(warm)


def _reordered(folder: Path, ids: list[str]) -> str:
    """A data file with these orders, in this sequence."""
    lines = {json.loads(line)["id"]: line for line in BUNDLED.read_text(encoding="utf-8").splitlines()}
    path = folder / "reordered.jsonl"
    path.write_text("".join(f"{lines[name]}\n" for name in ids), encoding="utf-8")
    return str(path)


def test_a_log_names_the_items_that_filled_its_pool(tmp_path: Path) -> None:
    run = read_log(carried(tmp_path, WARM)).run
    assert run.effective["warm"] == 4
    assert run.items["warm"]["ids"] == all_ids()[3:7] and run.items["count"] == 3
    others = [planned("o", WARM, **change) for change in ({}, {"limit": 4}, {"order": "shuffle:1"})]
    assert [[item.id for item in plan.warm] for plan in others] == [all_ids()[3:7], all_ids()[4:8], all_ids()[3:7]]
    assert not {item.id for plan in others for item in plan.warm} & {item.id for item in others[0].cell.items}


def test_dense_is_in_the_same_cell_and_has_no_pool_to_fill(tmp_path: Path) -> None:
    logs = [read_log(carried(tmp_path, condition)) for condition in ("dense", WARM, WARM.replace(",warm=4", ""))]
    assert logs[0].run.cell == logs[1].run.cell == logs[2].run.cell
    assert "warm" not in logs[0].run.items and "warm" not in logs[2].run.items
    assert len({log.run.fingerprint for log in logs}) == 3
    with pytest.raises(UserError, match="unknown parameter of condition 'dense' 'warm'"):
        parse("dense:warm=3")


def test_other_items_in_the_pool_are_another_run(tmp_path: Path) -> None:
    """The chosen items are the same; one that fills the pool is not."""
    made = [carried(tmp_path / str(end), "kvcomm:warm=1", data=_reordered(tmp_path, [*all_ids()[:3], all_ids()[end]]))
            for end in (3, 4)]  # fmt: skip
    assert len({read_log(path).run.fingerprint for path in made}) == 2


@pytest.mark.parametrize(("change", "spare"), [({"limit": None}, 0), ({"limit": None, "ids": all_ids()[-3:-1]}, 1)])
def test_too_few_other_items_are_told(change: dict[str, Any], spare: int) -> None:
    with pytest.raises(UserError, match=f"warm=2: the task has {spare} items after those of the run") as caught:
        planned("o", "kvcomm:warm=2", **change)
    assert "\n" not in str(caught.value)


def test_twins_and_their_warm_ups_are_the_logged_items_only(tmp_path: Path) -> None:
    made = calls(carried(tmp_path, "kvcomm:gamma=1.0,warm=4", twins=True, warm_up=1))
    reused = [call for call in made if call.served == "reuse"]
    assert [call.warm_up for call in reused] == [True] + [False] * (len(reused) - 1)
    assert len(reused) > 2 and all(call.twin is not None for call in reused)
    assert reused[0].twin is not None and reused[1].twin is not None
    assert reused[0].twin.first != reused[1].twin.first


# Resuming


@pytest.mark.parametrize("condition", [WARM, COIN, "bcr-grow:gamma=1.0,rho=0.5,shrink=1.0,select=epic,warm=2"])
@pytest.mark.parametrize("kept", [0, 1, 4])
def test_a_cut_log_goes_on_as_if_nothing_had_happened(tmp_path: Path, condition: str, kept: int) -> None:
    shape = {"limit": 5, "order": "shuffle:4"}
    path = carried(tmp_path, condition, **shape)
    whole = records(path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: 1 + kept]) + lines[1 + kept][:40])  # the next line is torn
    assert carried(tmp_path, condition, **shape) == path
    assert records(path) == whole


def test_a_pool_that_was_filled_otherwise_is_noticed(tmp_path: Path) -> None:
    path = carried(tmp_path, WARM)
    lines = path.read_text().splitlines(keepends=True)
    first = json.loads(lines[1])
    assert first["pool_hash"]
    first["pool_hash"] = "0" * 16
    path.write_text(lines[0] + json.dumps(first) + "\n")
    with pytest.raises(RunFailed, match="resuming: after item 0 .* the pool_hash is"):
        carried(tmp_path, WARM)


# Budgets that shrink

SHARES = st.floats(0, 1)


@given(SHARES, SHARES, SHARES, SHARES)
def test_a_share_is_at_most_rho_and_falls_as_the_pool_fills(rho: float, shrink: float, one: float, two: float) -> None:
    policy: Any = parse(f"bcr-chunk:rho={rho},shrink={shrink}").policy
    low, high = sorted((one, two))
    assert 0 <= policy.share(high) <= policy.share(low) <= policy.share(0.0) == rho
    assert policy.share(1.0) == pytest.approx(rho * (1 - shrink))
    usual: Any = parse(f"bcr-chunk:rho={rho}").policy
    assert usual.share(one) == rho


def test_a_call_spends_what_the_logged_pool_sizes_say(tmp_path: Path) -> None:
    """rho * (1 - shrink * fill), with fill from the gate records of the call's own segments."""
    capacity, rho, shrink = 4, 0.4, 0.75
    text = f"bcr-single:gamma=1.0,rho={rho},shrink={shrink},capacity={capacity},window=2,select=epic"
    path = carried(tmp_path, text, limit=9, data=None)  # longer questions than the pool has are new to it
    heard = {
        agent.id: ["question", *(f"agent_{name}" for name in agent.hears)] for agent in planned("o", text).cell.agents
    }
    seen = set()
    for item in items(path):
        anchors = {gate.segment: gate.anchors for call in item.calls for gate in call.gate}
        for call in item.calls:
            if call.served == "reuse":
                fills = [min(1.0, anchors[name] / capacity) for name in heard[call.agent]]
                fill = sum(fills) / len(fills)
                assert call.rows.selected == round(rho * (1 - shrink * fill) * call.rows.cached)
                seen.add(fill)
    assert len(seen) > 1, "the pool never filled further"


def test_a_matched_budget_does_not_shrink() -> None:
    assert "shrink=0.5" in parse("cacheblend:shrink=0.5").text
    with pytest.raises(UserError, match="shrink=0.5: expected 0 with match=reuse:0.6"):
        parse("cacheblend:shrink=0.5,match=reuse:0.6")


# Every axis once, on the whole way

SHAPES: list[tuple[str, dict[str, Any]]] = [
    *(("bcr-chunk:gamma=1.0,B=8", {"topology": name, "agents": 3}) for name in ("chain", "star", "layered")),
    *((f"bcr-chunk:gamma=1.0,select=coin,rho=1.0,B={size}", {}) for size in (16, 32, 64, 128, 256)),
    *((f"bcr-single:gamma=1.0,k={k}", {}) for k in (1, 8)),
    *((f"opengate:gamma=1.0,theta={theta}", {}) for theta in (0.0, 1.0)),
    *((f"kvcomm:gamma=0.0,capacity={size},window={among}", {}) for size, among in ((2, 1), (2, 2))),
    ("random:p=0.5,gamma=1.0,warm=2", {}),
    ("protect-leaf:gamma=1.0,warm=2", {"order": "shuffle:1"}),
    ("cacheblend:gamma=1.0,shrink=0.5", {}),
    ("kvcomm:gamma=1.0,warm=2", {"task": "copymachine", "data": "symbols=9"}),
]


@pytest.mark.parametrize(("condition", "change"), SHAPES)
def test_an_axis_arrives_where_it_matters(tmp_path: Path, condition: str, change: dict[str, Any]) -> None:
    log = read_log(carried(tmp_path, condition, **{**change, "limit": 5}))
    typed: dict[str, str] = dict(part.split("=") for part in condition.partition(":")[2].split(","))  # type: ignore[misc]
    assert {key: str(log.run.effective[key]) for key in typed} == typed
    assert log.run.cell["topology"] == change.get("topology", "full")
    reused = [call for item in log.items for call in item.calls if call.served == "reuse"]
    assert log.status == "complete" and bool(reused) == (typed["gamma"] != "0.0" and typed.get("theta") != "1.0")
    if typed.get("rho") == "1.0":
        assert all(call.rows.selected == call.rows.cached for call in reused)
    if "k" in typed:
        assert {len(call.draft_ids or []) for call in reused} == {int(typed["k"])}
    if "capacity" in typed:
        assert max(gate.anchors for item in log.items for call in item.calls for gate in call.gate) == 3


@pytest.mark.parametrize(
    "condition",
    ["bcr-chunk:B=0", "bcr-chunk:k=9", "bcr-chunk:k=0", "opengate:theta=1.1", "kvcomm:capacity=1", "kvcomm:window=0",
     "kvcomm:window=9,capacity=8", "kvcomm:warm=-1", "bcr-grow:shrink=1.5"],
)  # fmt: skip
def test_a_value_out_of_bounds_is_refused(condition: str) -> None:
    with pytest.raises(UserError, match="expected"):
        parse(condition)


def test_two_axes_may_each_need_the_other() -> None:
    """A pool of 3 is too small for the default window; one axis sets the pool, the other the window."""
    made = expand(None, ["kvcomm:window=2"], {}, {"capacity": "3,9"})
    assert [plan.spec.text for plan in made] == [f"kvcomm:gamma=0.3,capacity={size},window=2" for size in (3, 9)]


def test_a_coin_is_matched_to_the_run_whose_pool_was_kept_alike(tmp_path: Path) -> None:
    shape: dict[str, Any] = {"limit": 6, "data": None}
    seen = {}
    for pool in ("", ",warm=6"):
        log = read_log(carried(tmp_path, f"kvcomm:gamma=1.0{pool}", **shape))
        seen[pool] = [call.served for item in log.items for call in item.calls].count("reuse")
    assert seen[""] < seen[",warm=6"]
    calls = 6 * 3
    for pool, reused in seen.items():
        path = carried(tmp_path, f"random:match=0.3,gamma=1.0{pool}", **shape)
        assert read_log(path).run.effective["p"] == matching(0.3, reused, calls, 0)
