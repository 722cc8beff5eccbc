"""The curve of assembly: what a point does and reads, how many layers fit, and the law that is fitted."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import twins

from bcrbench.bench import machine
from bcrbench.bench.curve import NAME, OWN, Curve, Room, points, with_layers
from bcrbench.bench.options import REUSE, BenchOptions
from bcrbench.bench.run import Where, run_bench
from bcrbench.bench.workload import TAIL
from bcrbench.runs.log import Log, read_log
from bcrbench.runs.schema import BenchRecord, ItemRecord, Stages, Work
from bcrbench.stats.bench_curve import curve_rows, law_of, law_rows, left_out, points_of
from bcrbench.stats.bench_report import bench_report
from bcrbench.stats.report import Options

ROWS, LAYERS = 24, 2


def test_a_point_gates_and_assembles_a_call_from_all_its_anchors() -> None:
    curve = Curve(twins("llama").runtime, ROWS, 5, LAYERS)
    for anchors in (2, 5, 2):
        curve.hold(anchors)
        measured = curve.measure()
        pool = curve.shared.pool
        assert len(pool.bucket(NAME).anchors) == anchors
        assert curve.shared.new == {NAME: False}
        assert curve.cache.length == OWN + ROWS + TAIL - 1
        assert set(measured.stages) == {"gate", "assemble"}
        assert measured.ttft_ms >= sum(measured.stages.values()) > 0
        # Whatever lies in the pool is read at least once, but the first layer's deviations and the last fixed row.
        assert pool.bytes / 2 < sum(part.bytes for part in measured.work) < 2 * pool.bytes


def test_points_share_their_anchors() -> None:
    curve = Curve(twins("llama").runtime, ROWS, 3, LAYERS)
    bucket = curve.shared.pool.bucket(NAME)
    curve.hold(3)
    three = list(bucket.anchors)
    curve.hold(2)
    assert [a is b for a, b in zip(bucket.anchors, three[:2], strict=True)] == [True, True]
    curve.hold(3)
    assert [a is b for a, b in zip(bucket.anchors, three, strict=True)] == [True, True, True]


def test_rows_in_the_cache_are_base_rows_with_a_blend_of_deviations() -> None:
    curve = Curve(twins("llama").runtime, ROWS, 3, LAYERS)
    curve.hold(3)
    curve.measure()
    values = curve.cache.values[:, 0, :, OWN : OWN + ROWS].permute(2, 0, 1, 3)
    # Deviations are the base rows scaled by nearly 1, and weights sum to 1: the blend nearly doubles all but layer 0.
    torch.testing.assert_close(values[:, 0], curve.base.values[:, 0])
    torch.testing.assert_close(values[:, 1], 2 * curve.base.values[:, 1], rtol=0.01, atol=0)


def test_the_models_own_layers_stay_as_they_are() -> None:
    runtime = twins("llama").runtime
    before = runtime.layers
    Curve(runtime, 8, 2, 1 + before)
    assert runtime.layers == before


@given(free=st.integers(0, 10**7), rows=st.integers(1, 500), anchors=st.integers(2, 30), most=st.integers(2, 40))
def test_layers_are_the_most_that_fit(free: int, rows: int, anchors: int, most: int) -> None:
    room = Room(float(free), 64)
    layers = room.layers(rows, anchors, most)
    assert 2 <= layers <= most
    assert room.fits(rows, anchors, layers) or layers == 2
    assert layers == most or not room.fits(rows, anchors, layers + 1)


def test_layers_are_as_asked_and_at_most_the_models() -> None:
    runtime = twins("llama").runtime
    room = Room.of(runtime, 10**12)
    for asked, given_ in ((None, 2), (2, 2), (30, 2)):
        assert with_layers(BenchOptions(layers=asked), runtime, room).layers == given_
    assert with_layers(BenchOptions(assembly=False, layers=2), runtime, room).layers is None


def test_points_without_room_are_left_out() -> None:
    options = BenchOptions(rows=(100,), pools=(10, 2, 5), layers=2)
    room = Room((2 * 5 + 8) * (100 + TAIL) * 64 * 2.0, 64)
    assert list(points(options, room, 100)) == [(2, True), (5, True), (10, False)]


def test_free_memory_is_no_more_than_the_machine_has() -> None:
    assert 0 < machine.free_bytes(torch.device("cpu")) < 2**50


def test_a_control_groups_limit_bounds_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_SHARE", tmp_path)
    free = machine.free_bytes(torch.device("cpu"))
    (tmp_path / "memory.max").write_text("9000000\n")
    (tmp_path / "memory.current").write_text("2000000\n")
    assert machine.free_bytes(torch.device("cpu")) == 7_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.free_bytes(torch.device("cpu")) > min(free / 2, 7_000_000)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Log[ItemRecord]:
    folder = tmp_path_factory.mktemp("curve")
    options = BenchOptions(
        symbols=(8,), prefix=4, anchors=2, rho=(0.5,), layouts=("single",), selects=("coin",), repeat=2, new_tokens=1,
        short=False, throughput=False, generate=False, rows=(16, 8), pools=(3, 2),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        real = machine.measure
        patch.setattr(machine, "measure", lambda device, dtype: real(device, dtype, 64))
        return read_log(run_bench(Where("random:tiny", threads=1, out=str(folder)), options, lambda line: None))


def test_every_point_is_logged_with_its_warm_up(bench: Log[ItemRecord]) -> None:
    lines = [record for record in bench.benches if record.workload.startswith("assembly=")]
    orders = ((2, 3), (3, 2), (2, 3))  # every other round backwards
    assert [record.workload for record in lines] == [
        f"assembly={rows}x{anchors}" for rows in (8, 16) for order in orders for anchors in order
    ]
    assert [record.place for record in lines] == 6 * [0, 1]
    assert [record.warm_up for record in lines] == 2 * [True, True, False, False, False, False]
    assert {(record.condition, record.first_token) for record in lines} == {(REUSE, -1)}
    assert bench.run.effective["layers"] == 2
    assert [len(point.records) for point in points_of(bench)] == [2, 2, 2, 2]
    assert left_out(bench) == []
    assert "gate and assembly of one segment, rows of 2 layers" in bench_report([bench], Options()).text


def made(costs: dict[tuple[int, int], float], log: Log[ItemRecord]) -> Log[ItemRecord]:
    records = [
        BenchRecord(
            workload=f"assembly={rows}x{anchors}", condition=REUSE, round=1, place=0, warm_up=False,
            prompt_tokens=rows, rows=0, new_tokens=0, first_token=-1, ttft_ms=ms, ms=Stages(gate=ms / 4),
            base_ms=0.0, work=[Work(stage="gate", flops=0.0, bytes=4e6)], flops_per_s=1.0, bytes_per_s=1e9, wall_s=0.1,
        )
        for (rows, anchors), ms in costs.items()
    ]  # fmt: skip
    return Log(log.path, log.run, benches=records, end=log.end)


GRID = [(rows, anchors) for rows in (10, 100, 1000) for anchors in (2, 5, 20)]


def test_the_law_is_found_and_points_are_held_against_it(bench: Log[ItemRecord]) -> None:
    log = made({(r, a): 3.0 + 0.01 * r * a + 0.05 * r for r, a in GRID}, bench)
    law = law_of(points_of(log))
    assert law is not None
    assert (law.fixed, law.row_anchor, law.row) == pytest.approx((3.0, 0.01, 0.05), rel=1e-6)
    rows = curve_rows(log, 1e9)
    assert [row["fit_ms"] for row in rows] == pytest.approx([row["both_ms"] for row in rows])
    last = rows[-1]
    assert last["us_a_row_anchor"] == pytest.approx(1e3 * last["both_ms"] / 20_000)
    assert last["copy_share"] == pytest.approx(4e6 / (last["both_ms"] / 1e3) / 1e9)
    whole, narrow = law_rows(log)
    assert whole["largest_off"] < 1e-6 < narrow["largest_off"]
    assert narrow["us_a_row"] == 0


def test_another_law_shows(bench: Log[ItemRecord]) -> None:
    log = made({(r, a): 1e-6 * r * r * a * a for r, a in GRID}, bench)
    assert law_rows(log)[0]["largest_off"] > 0.5


def test_few_points_have_no_law_and_missing_ones_are_named(bench: Log[ItemRecord]) -> None:
    log = made({(8, 2): 1.0, (8, 3): 2.0, (16, 2): 2.0}, bench)
    assert law_rows(log) == []
    assert {row["off"] for row in curve_rows(log, 1e9)} == {None}
    assert left_out(log) == ["16 rows x 3"]
    assert "no room in memory for 16 rows x 3 anchors" in " ".join(bench_report([log], Options()).notes)
