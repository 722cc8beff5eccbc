"""Times beside a reference's and beside dense twins: what pairs up, intervals, tests, and a family of their own."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from loglines import item_record, write_log
from scipy.stats import binomtest, ttest_rel, wilcoxon
from statsmodels.stats.multitest import multipletests

from bcrbench.cli.stats import stats
from bcrbench.runs.log import read_outcomes
from bcrbench.runs.schema import ItemRecord, Stages, Twin
from bcrbench.stats.arms import make_arms
from bcrbench.stats.times import time_rows

N = 40
KV = "kvcomm:gamma=0.3"


def made(seed: int, faster: float = 1.0) -> list[ItemRecord]:
    rng = random.Random(seed)
    items = [item_record(k, "correct", rng) for k in range(N)]
    for item in items:
        item.wall_s /= faster
        for call in item.calls:
            call.ttft_ms /= faster
    return items


def twinned(items: list[ItemRecord]) -> list[ItemRecord]:
    """Reused calls with dense twins; the first two are warm-ups."""
    rng = random.Random(7)
    for seen, call in enumerate(call for item in items for call in item.calls if call.served == "reuse"):
        call.twin = Twin(ttft_ms=rng.uniform(40, 90), e2e_ms=rng.uniform(600, 999), tokens=1, first=True, ms=Stages())
        call.warm_up = seen < 2
    return items


def logs(folder: Path, rows: dict[str, list[ItemRecord]], **changes: Any) -> Path:
    for name, items in rows.items():
        write_log(folder / f"{name.replace(':', '+')}.jsonl", name, [], made=items, **changes)
    return folder


def run(folder: Path, *options: str) -> Any:
    return CliRunner().invoke(stats, [str(folder), "--latency", *options], catch_exceptions=False)


def times_of(folder: Path, *options: str) -> dict[tuple[str, str], dict[str, Any]]:
    rows = json.loads(run(folder, "--format", "json", *options).stdout)
    return {(row["condition"], time["time"]): time for row in rows for time in row["times"]}


def same_tests(found: dict[str, Any], one: list[float], two: list[float]) -> None:
    faster = sum(a > b for a, b in zip(one, two, strict=True))
    assert found["items"] == len(one)
    assert found["saved_ms"] == pytest.approx(sum(one) / len(one) - sum(two) / len(two))
    assert found["t_p"] == pytest.approx(ttest_rel(one, two).pvalue)
    signed_rank: Any = wilcoxon
    assert found["wilcoxon_p"] == pytest.approx(signed_rank(one, two, method="asymptotic").pvalue)
    assert found["sign_p"] == pytest.approx(binomtest(faster, len(one)).pvalue)
    assert found["ratios_low"] < found["mean_of_ratios"] < found["ratios_high"]
    assert found["means_low"] < found["ratio_of_means"] < found["means_high"]


def test_items_and_calls_are_tested_against_the_references(tmp_path: Path) -> None:
    before, after = made(1), made(2, 1.1)
    found = times_of(logs(tmp_path, {"dense": before, KV: after}))
    same_tests(found[KV, "e2e_ms"], [1000 * item.wall_s for item in before], [1000 * item.wall_s for item in after])
    by_item = [[sum(call.ttft_ms for call in item.calls) / 4 for item in items] for items in (before, after)]
    same_tests(found[KV, "ttft_ms"], *by_item)
    assert found[KV, "ttft_ms"]["against"] == "dense"
    assert {found["dense", "ttft_ms"][name] for name in ("against", "items", "t_p", "ratios_low")} == {None}
    assert (KV, "twin_ttft_ms") not in found


def test_a_calls_twin_is_its_pair_and_warm_ups_are_left_out(tmp_path: Path) -> None:
    items = twinned(made(3))
    found = times_of(logs(tmp_path, {KV: items}))
    kept = [[call for call in item.calls if call.twin and not call.warm_up] for item in items]
    kept = [calls for calls in kept if calls]
    pairs = {
        "twin_ttft_ms": [[(call.twin.ttft_ms, call.ttft_ms) for call in calls if call.twin] for calls in kept],
        "twin_e2e_ms": [[(call.twin.e2e_ms, call.e2e_ms) for call in calls if call.twin] for calls in kept],
    }
    for name, of_items in pairs.items():
        means = [[sum(pair[side] for pair in item) / len(item) for item in of_items] for side in (0, 1)]
        same_tests(found[KV, name], *means)
        flat = [pair for item in of_items for pair in item]
        assert found[KV, name]["mean_of_ratios"] == pytest.approx(sum(one / two for one, two in flat) / len(flat))
        assert found[KV, name]["against"] == "dense twin"
    assert found[KV, "ttft_ms"]["items"] is None


def test_a_pair_needs_both_calls_and_neither_a_warm_up(tmp_path: Path) -> None:
    before, after = made(1), made(2)
    for call in after[0].calls[:2]:
        call.warm_up = True
    after[1].calls.pop()  # cut short by an error
    found = times_of(logs(tmp_path, {"dense": before, KV: after}))[KV, "ttft_ms"]
    assert found["items"] == N - 1
    ratio = [
        one.ttft_ms / two.ttft_ms
        for k, (first, second) in enumerate(zip(before, after, strict=True))
        for one, two in zip(first.calls, second.calls, strict=k != 1)
        if k != 1 and not two.warm_up
    ]
    assert found["mean_of_ratios"] == pytest.approx(sum(ratio) / len(ratio))


@pytest.mark.parametrize("correction", ["holm", "bonferroni"])
def test_the_tests_of_times_are_a_family_of_their_own(tmp_path: Path, correction: str) -> None:
    folder = logs(tmp_path, {"dense": made(1), KV: made(2, 1.2), "bcr-grow": made(3, 1.15)})
    found = [time for time in times_of(folder, "--family", correction).values() if time["wilcoxon_p"] is not None]
    expected = multipletests([time["wilcoxon_p"] for time in found], method=correction)[1]
    assert [time[f"wilcoxon_p_{correction}"] for time in found] == pytest.approx(list(expected)) and len(found) == 4
    assert f"wilcoxon_p_{correction}: over all 4 Wilcoxon tests" in run(folder, "--family", correction).stderr


@pytest.mark.parametrize("fmt", ["table", "md", "latex", "csv"])
def test_tests_of_times_are_shown_in_every_format(tmp_path: Path, fmt: str) -> None:
    done = run(logs(tmp_path, {"dense": made(1), KV: twinned(made(2))}), "--format", fmt)
    assert "wilcoxon" in done.stdout and "twin" in done.stdout
    assert "one time an item" in done.stderr


@settings(max_examples=15, deadline=None)
@given(factor=st.floats(0.2, 5.0))
def test_a_uniform_speed_up_is_found_exactly(tmp_path_factory: pytest.TempPathFactory, factor: float) -> None:
    folder = logs(tmp_path_factory.mktemp("logs"), {"dense": made(1), KV: made(1, factor)})
    one, two = (make_arms([read_outcomes(folder / f"{name}.jsonl")])[0] for name in ("dense", "kvcomm+gamma=0.3"))
    for row in time_rows(two, one):
        assert (row["mean_of_ratios"], row["ratio_of_means"]) == pytest.approx((factor, factor))
        assert (row["saved_ms"] > 0) == (factor > 1) or factor == 1


def test_logs_without_items_or_pairs_have_no_tests(tmp_path: Path) -> None:
    folder = logs(tmp_path, {"dense": [], KV: []})
    assert {time["wilcoxon_p"] for time in times_of(folder, "--family", "holm").values()} == {None}
    assert "one time an item" not in run(folder).stderr
