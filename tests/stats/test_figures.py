"""Each figure's data against what its logs hold, and the reasons where there is nothing to draw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest
from figurelogs import CAPACITY, cell_of, dense_items, read_probe, repair_log, reusing_items, served, write_probe
from hypothesis import given, settings
from hypothesis import strategies as st
from loglines import item_record, write_log

from bcrbench.runs.log import read_outcomes
from bcrbench.runs.schema import Stages, Twin
from bcrbench.stats.arms import make_arms
from bcrbench.stats.cells import Cell, make_cells
from bcrbench.stats.figures import (
    accuracy_by_reuse,
    along_the_run,
    budget,
    frontier,
    stages,
    unit_of_choice,
    warm_up,
)
from bcrbench.stats.figures.base import NoData, chosen
from bcrbench.stats.figures.source import read_for_figures
from bcrbench.stats.seeds import over_seeds


def pair(folder: Path, dense: Sequence[bool], reused: Sequence[bool], first: int = 0) -> Cell:
    one = write_log(folder / "dense.jsonl", "dense", dense, made=dense_items(dense))
    two = write_log(folder / "kv.jsonl", "kvcomm:gamma=1.0", reused, made=reusing_items(reused, first))
    return cell_of([one, two])


@given(st.integers(1, 700))
def test_blocks_are_the_papers_or_a_fifth(items: int) -> None:
    size = warm_up.block_size(items)
    assert size == 60 if items >= 120 else -(-items // size) <= 5


@settings(max_examples=12)
@given(items=st.integers(2, 200))
def test_blocks_hold_every_item_once(items: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    cell = pair(tmp_path_factory.mktemp("blocks"), [True] * items, [k % 3 > 0 for k in range(items)])
    size = warm_up.block_size(items)
    rows = warm_up.block_rows(cell.arms[0], cell.arms[1], size)
    assert [row["first"] for row in rows] == [1, *(row["last"] + 1 for row in rows[:-1])]
    assert rows[-1]["last"] == items
    sizes = [row["last"] - row["first"] + 1 for row in rows]
    assert all(count == size for count in sizes[:-1])
    weighed = sum(row["difference"] * count for row, count in zip(rows, sizes, strict=True))
    assert weighed == pytest.approx(sum(k % 3 > 0 for k in range(items)) - items)


def test_the_first_block_reuses_least_where_the_pool_fills(tmp_path: Path) -> None:
    cell = pair(tmp_path, [True] * 120, [True] * 120, first=30)
    rows = warm_up.make(cell).rows
    assert [row["reuse_rate"] for row in rows] == [0.5, 1.0]


def test_the_line_goes_through_dense_and_the_kvcomm_that_reuses_most(tmp_path: Path) -> None:
    outcomes = [k % 4 > 0 for k in range(40)]
    paths = [
        write_log(tmp_path / "d.jsonl", "dense", [True] * 40, made=dense_items([True] * 40)),
        write_log(tmp_path / "a.jsonl", "kvcomm:gamma=0.3", outcomes, made=reusing_items(outcomes, first=20)),
        write_log(tmp_path / "b.jsonl", "kvcomm:gamma=1.0", [False] * 40, made=reusing_items([False] * 40, first=4)),
    ]
    rows = {row["condition"]: row for row in accuracy_by_reuse.make(cell_of(paths)).rows}
    assert rows["dense"]["residual"] == pytest.approx(0)
    assert rows["kvcomm:gamma=1.0"]["residual"] == pytest.approx(0)
    # half way to 0.9, the line has lost 0.5 / 0.9 of 100 points; this condition lost 25
    assert rows["kvcomm:gamma=0.3"]["residual"] == pytest.approx(0.5 / 0.9 - 0.25)
    assert all(row["ci_low"] < row["accuracy"] or row["accuracy"] == 0 for row in rows.values())


points = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=12)


@given(points)
def test_the_frontier_is_what_nothing_beats(found: list[tuple[int, int]]) -> None:
    best = frontier.frontier(found)

    def beats(one: tuple[int, int], two: tuple[int, int]) -> bool:
        return one != two and one[0] <= two[0] and one[1] >= two[1]

    assert best
    for k, point in enumerate(found):
        assert (k in best) != any(beats(other, point) for other in found)


def test_times_of_the_frontier_leave_warm_ups_out(tmp_path: Path) -> None:
    import random

    rng = random.Random(0)
    calls = [served(rng, "1", False, ttft_ms=900.0, warm_up=True), served(rng, "2", False, ttft_ms=7.0)]
    made = [item_record(k, "correct", rng, calls=calls) for k in range(3)]
    paths = [write_log(tmp_path / f"{name}.jsonl", name, [True] * 3, made=made) for name in ("dense", "placebo")]
    assert {row["ttft_ms"] for row in frontier.make(cell_of(paths)).rows} == {7.0}


def test_seeds_of_one_budget_are_one_point(tmp_path: Path) -> None:
    accuracies = {0.1: [0.5, 0.7, 0.6], 0.2: [0.8, 0.6, 0.9]}
    paths = [write_log(tmp_path / "d.jsonl", "dense", [True] * 10, made=dense_items([True] * 10))]
    for rho, values in accuracies.items():
        for seed, value in enumerate(values):
            outcomes = [k < 10 * value for k in range(10)]
            paths.append(repair_log(tmp_path / f"{rho}.{seed}.jsonl", outcomes, rho, seed))
    rows = [row for row in budget.make(cell_of(paths)).rows if row["rho"] is not None]
    assert {row["family"] for row in rows} == {"bcr-chunk:gamma=0.3,select=coin"}
    for rho, values in accuracies.items():
        mine = [row for row in rows if row["rho"] == rho]
        assert [row["accuracy"] for row in mine] == values
        summary = over_seeds(values)
        assert {(row["mean"], row["low"], row["high"]) for row in mine} == {(summary.mean, summary.low, summary.high)}


def test_one_budget_is_no_sweep(tmp_path: Path) -> None:
    paths = [repair_log(tmp_path / f"{seed}.jsonl", [True] * 4, 0.2, seed) for seed in (0, 1)]
    with pytest.raises(NoData, match="two budgets"):
        budget.make(cell_of(paths))


def test_units_are_those_of_the_table(tmp_path: Path) -> None:
    chart = unit_of_choice.make(read_probe(write_probe(tmp_path / "p.jsonl")))
    assert "n = 3 prompts" in chart.title
    assert [(row["operator"], row["unit"]) for row in chart.rows] == [
        ("transplant", 1), ("transplant", 64), ("recompute", 1), ("recompute", 64),
    ]  # fmt: skip
    assert {row["attention"] for row in chart.rows if row["unit"] == 1} == {0.03}


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=60).map(sorted))
def test_bins_begin_at_the_least_and_rise(lengths: list[int]) -> None:
    edges = stages.bins(lengths)
    assert edges[0] == lengths[0]
    assert edges == sorted(set(edges))
    assert edges[-1] <= lengths[-1]
    assert len(edges) <= stages.BINS + 2


def test_stages_are_means_over_calls_that_someone_reused(tmp_path: Path) -> None:
    cell = pair(tmp_path, [True] * 6, [True] * 6, first=2)
    rows = {row["condition"]: row for row in stages.make([cell]).rows}
    assert {name: row["calls"] for name, row in rows.items()} == {"dense": 8, "kvcomm:gamma=1.0": 8}
    assert {name: row["reused"] for name, row in rows.items()} == {"dense": 0, "kvcomm:gamma=1.0": 8}
    assert rows["kvcomm:gamma=1.0"]["repair_ms"] == pytest.approx(fmean([3, 4, 5, 6]))
    assert rows["dense"]["rows_low"] == rows["dense"]["rows_high"] == 59


def test_twins_are_a_bar_of_their_own_and_warm_ups_are_none(tmp_path: Path) -> None:
    import random

    rng = random.Random(0)
    twin = Twin(ttft_ms=50.0, e2e_ms=90.0, tokens=6, first=True, ms=Stages(first_token=48.0))
    calls = [served(rng, "1", True, twin=twin, warm_up=True), served(rng, "2", True, twin=twin)]
    made = [item_record(k, "ungraded", rng, calls=calls) for k in range(3)]
    cell = cell_of([write_log(tmp_path / "k.jsonl", "kvcomm:gamma=1.0", [True] * 3, made=made)])
    rows = {row["condition"]: row for row in stages.make([cell]).rows}
    assert {name: row["calls"] for name, row in rows.items()} == {"kvcomm:gamma=1.0": 3, "dense twins": 3}
    assert rows["dense twins"]["first_token_ms"] == 48.0


def test_the_pool_and_the_rate_along_the_run(tmp_path: Path) -> None:
    cell = pair(tmp_path, [True] * 30, [True] * 30, first=10)
    rows = along_the_run.make(cell).rows
    assert {row["condition"] for row in rows} == {"kvcomm:gamma=1.0"}  # dense has no gate
    assert [row["anchors_mean"] for row in rows] == [min(k, CAPACITY) for k in range(30)]
    rates = [row["reuse_rate"] for row in rows]
    assert rates[:10] == [0.0] * 10
    assert rates[19] == 0.5
    assert rates[29] == 1.0


def test_reasons_where_there_is_nothing_to_draw(tmp_path: Path) -> None:
    alone = cell_of([write_log(tmp_path / "d.jsonl", "dense", [True] * 4, made=dense_items([True] * 4))])
    for make in (warm_up.make, accuracy_by_reuse.make, frontier.make, budget.make, along_the_run.make):
        with pytest.raises(NoData):
            make(alone)
    with pytest.raises(NoData, match="no call was reused"):
        stages.make([alone])
    ungraded = write_log(tmp_path / "u.jsonl", "kvcomm:gamma=1.0", ["ungraded"] * 4)
    for make in (warm_up.make, accuracy_by_reuse.make, frontier.make, budget.make):
        with pytest.raises(NoData):
            make(cell_of([ungraded]))


def test_a_log_read_for_tables_is_refused_by_name(tmp_path: Path) -> None:
    path = write_log(tmp_path / "k.jsonl", "kvcomm:gamma=1.0", [True] * 3)
    (cell,), _ = make_cells(make_arms([read_outcomes(path)]), None)
    with pytest.raises(TypeError, match="k.jsonl"):
        along_the_run.make(cell)


def test_reading_for_figures_loses_nothing_that_statistics_read(tmp_path: Path) -> None:
    path = write_log(tmp_path / "k.jsonl", "kvcomm:gamma=1.0", [True, False, "error:timeout"])
    slim, rich = read_outcomes(path), read_for_figures(path)
    for one, two in zip(slim.items, rich.items, strict=True):
        for name in ("index", "id", "item_hash", "text", "outcome", "wall_s"):
            assert getattr(one, name) == getattr(two, name)
        for call, other in zip(one.calls, two.calls, strict=True):
            for name in ("role", "served", "ttft_ms", "outcome"):
                assert getattr(call, name) == getattr(other, name)
            assert call.rows.recomputed == other.rows.recomputed


def test_every_policy_is_drawn_before_a_second_of_any(tmp_path: Path) -> None:
    names = [*(f"kvcomm:gamma=0.{k}" for k in range(1, 9)), "random:p=0.5", "protect-root:gamma=0.3", "dense"]
    paths = [write_log(tmp_path / f"{k}.jsonl", name, [True] * 2) for k, name in enumerate(names)]
    arms = cell_of(paths).arms
    kept, notes = chosen(arms, 6)
    assert {"dense", "random:p=0.5", "protect-root:gamma=0.3"} <= {arm.condition for arm in kept}
    assert notes == ["5 of 11 conditions are not drawn; the data hold all"]
    assert chosen(arms, 11) == (arms, [])
    assert [arm.condition for arm in chosen(arms, 2)[0]] == ["dense", "kvcomm:gamma=0.1"]
