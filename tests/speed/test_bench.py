"""The bench: what it serves and logs, what it refuses, and what statistics make of its log."""

from __future__ import annotations

import json
import os
import signal
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from click.testing import CliRunner, Result
from small_models import some_ids, twins

from bcrbench.bench import machine
from bcrbench.bench.contestants import Ring
from bcrbench.bench.generate import generate
from bcrbench.bench.options import BenchOptions
from bcrbench.bench.pool import FullPool
from bcrbench.bench.run import Where, run_bench
from bcrbench.bench.workload import QUESTION, SHORT, Workload
from bcrbench.cli.main import main
from bcrbench.cli.stats import stats
from bcrbench.conditions import parse
from bcrbench.errors import UserError
from bcrbench.reuse.policies import Dense
from bcrbench.reuse.segments import join
from bcrbench.reuse.serve import Job, Server
from bcrbench.runs.log import read_log
from bcrbench.runs.runner import Cancelled
from bcrbench.runs.schema import BenchRecord, Stages, Work
from bcrbench.stats.bench_report import bench_report
from bcrbench.stats.bench_rows import Bench, is_prompt, label, outside, speed_rows
from bcrbench.stats.bench_targets import TARGETS, target_rows
from bcrbench.stats.report import Options

SMALL = BenchOptions(symbols=(40,), anchors=3, prefix=16, layouts=("chunk", "single"), repeat=2, new_tokens=3,
                     agents=3, document=30, answer=4,
                     rows=(8, 24), pools=(2, 3))  # fmt: skip


@pytest.fixture(autouse=True)
def small_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    real = machine.measure
    monkeypatch.setattr(machine, "measure", lambda device, dtype: real(device, dtype, 64))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    return run_bench(Where("random:tiny", threads=1, out=str(folder)), SMALL, lambda line: None)


def test_every_condition_is_served_once_a_round_in_an_order_that_alternates(log: Path) -> None:
    read = read_log(log)
    assert read.status == "complete"
    for workload, ways in (("symbols=40", 3 + 8), ("short", 3), ("question", 3), ("throughput", 2 + 2)):
        rounds = [[r for r in read.benches if (r.workload, r.round) == (workload, k)] for k in range(3)]
        names = [[record.condition for record in one] for one in rounds]
        assert len(set(names[0])) == len(names[0]) == ways
        assert names == [names[0], names[0][::-1], names[0]]
        assert [{record.warm_up for record in one} for one in rounds] == [{True}, {False}, {False}]
        assert all([record.place for record in one] == list(range(ways)) for one in rounds)
    assert read.end is not None
    assert read.end.wall_s == pytest.approx(sum(record.wall_s for record in read.benches), abs=0.01)


def prompts(log: Path) -> list[BenchRecord]:
    return [record for record in read_log(log).benches if is_prompt(record)]


def test_a_serving_holds_its_stages_and_its_work(log: Path) -> None:
    for record in prompts(log):
        assert record.ms.repair + record.ms.first_token > 0
        assert outside(record) >= 0
        stages = {part.stage for part in record.work}
        whole = record.condition in ("dense", "generate")
        assert stages - {"draft", "select"} == (
            {"first_token", "decode"} if whole else {"gate", "assemble", "repair" if record.rows else "first_token"}
        )
        assert ("draft" in stages) == (record.condition.startswith("bcr") and "coin" not in record.condition)
        assert record.new_tokens == (SMALL.new_tokens if whole else 0)
        assert {stage for stage in stages if getattr(record.ms, stage) == 0} == set()


def test_dense_and_generate_give_the_same_tokens() -> None:
    runtime = twins("llama").runtime
    ids = some_ids(50)
    found = generate(runtime, ids, 6)
    server = Server(runtime, Dense(), {}, 7, fixed_length=True)
    outcome = server.serve(Job("1", (), join([ids], [], []), "agent_1", feeds=False))
    assert found.ids == outcome.generation.ids
    assert found.ttft_ms > 0
    assert found.decode_ms > 0
    assert runtime.model.config._attn_implementation == "sdpa"


def test_a_full_pool_serves_every_call_from_all_its_anchors() -> None:
    runtime = twins("llama").runtime
    full = FullPool(runtime, SHORT, 4)
    for text in ("kvcomm:gamma=1.0", "bcr-single:gamma=1.0,rho=1,select=coin"):
        outcome, gates = full.serve(parse(text).policy)  # type: ignore[arg-type]
        assert outcome.served == "reuse"
        assert gates > 0
        assert outcome.rows.cached == SHORT.tokens - 1
    assert [len(bucket.anchors) for bucket in full.shared.pool.buckets.values()] == [4] * 4
    # Repaired in full, it is a dense call.
    dense = runtime.run(full.prompt.ids, range(SHORT.tokens), runtime.new_cache(SHORT.tokens))
    assert outcome.generation.ids[0] == int(torch.argmax(dense))


def test_each_call_is_served_from_the_same_state() -> None:
    full = FullPool(twins("qwen2").runtime, Workload("x", (8, 4), (20,)), 3)
    policy = parse("bcr-single:gamma=1.0,rho=0.3").policy
    starts = []
    for _ in range(3):
        outcome, _ = full.serve(policy)  # type: ignore[arg-type]
        starts.append((outcome.start.rows, outcome.start.draft_ids, outcome.generation.ids))
    assert starts == [starts[0]] * 3


def test_a_stopped_bench_says_so(tmp_path: Path) -> None:
    def stop_at_second(line: str) -> None:
        if line.endswith("round 2 of 3"):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Cancelled):
        run_bench(Where("random:tiny", threads=1, out=str(tmp_path)), SMALL, stop_at_second)
    [path] = tmp_path.glob("*.jsonl")
    read = read_log(path)
    assert read.status == "cancelled"
    assert {record.round for record in read.benches} == {0}
    assert "cancelled" in " ".join(bench_report([read], Options()).notes)


def record(condition: str, round: int, ttft: float, work: list[Work], warm_up: bool = False) -> BenchRecord:
    return BenchRecord(
        workload="w", condition=condition, round=round, place=0, warm_up=warm_up, prompt_tokens=9, rows=0, new_tokens=0,
        first_token=1, ttft_ms=ttft, ms=Stages(), base_ms=0.0, work=work, flops_per_s=100.0 + round,
        bytes_per_s=10.0, wall_s=1.0,
    )  # fmt: skip


def test_ratios_are_taken_within_rounds_and_bounds_at_the_best_rates(log: Path) -> None:
    read = read_log(log)
    heavy, light = [Work(stage="first_token", flops=204.0, bytes=1.0)], [Work(stage="repair", flops=1.0, bytes=10.0)]
    read.benches = [
        record("dense", 0, 1.0, heavy, warm_up=True), record("kvcomm:gamma=1.0", 0, 50.0, light, warm_up=True),
        record("dense", 1, 100.0, heavy), record("kvcomm:gamma=1.0", 1, 10.0, light),
        record("kvcomm:gamma=1.0", 2, 100.0, light), record("dense", 2, 3000.0, heavy),
    ]  # fmt: skip
    dense, reuse = speed_rows(Bench.of(read), "w")
    assert (dense["condition"], reuse["condition"]) == ("dense", "reuse")
    assert dense["bound_ms"] == pytest.approx(1e3 * 204 / 102)
    assert reuse["bound_ms"] == pytest.approx(1e3)
    assert reuse["speedup"] == pytest.approx((10 + 30) / 2)
    assert (reuse["speedup_low"], reuse["speedup_high"]) == (10, 30)
    assert reuse["limit"] == pytest.approx(2)
    assert reuse["bound_share"] == pytest.approx((1000 / 10 + 1000 / 100) / 2)


def test_targets_name_conditions_as_logs_do() -> None:
    canonical = {parse(text).text for text in BenchOptions().repairs} | {"dense", "generate", "kvcomm:gamma=1.0"}

    class Asked(Bench):
        def ratio(self, workload: str, upper: str, lower: str, *_: Any) -> None:
            assert {upper, lower} <= canonical
            assert workload in ("symbols=4096", SHORT.name, QUESTION.name)

        def bound_ratio(self, workload: str, upper: str, lower: str) -> None:
            pass

        def bound_of(self, workload: str, name: str) -> None:
            assert name in canonical

    for every, count in zip(TARGETS.values(), (10, 5), strict=True):
        assert [target.row(Asked({}, 1.0, 1.0)) for target in every] == [None] * count


def test_targets_are_for_one_model_type_and_kind_of_device(log: Path) -> None:
    read = read_log(log)
    bench = Bench({"symbols=4096": {name: servings_of(name) for name in ("dense", "kvcomm:gamma=1.0")}}, 1e9, 1e9)
    assert target_rows(read, bench) == []
    read.run.effective["anchors"] = 20
    read.run.model |= {"spec": "random:llama-3.1-8b", "dtype": "bfloat16"}
    read.run.device["kind"] = "cuda"
    found = {row["figure"]: (row["target"], row["reached"], row["met"]) for row in target_rows(read, bench)}
    assert found == {
        "ms to the first token, reuse": ("<= 10", 5.0, "yes"),
        "decode, share of the bound by bandwidth": (">= 0.7", 0.5, "no"),
    }
    read.run.model["dtype"] = "float32"
    assert target_rows(read, bench) == []


def servings_of(name: str) -> dict[int, BenchRecord]:
    made = record(name, 1, 5.0, [Work(stage="decode", flops=1.0, bytes=2e6)])
    return {1: msgspec.structs.replace(made, ms=Stages(decode=4.0), new_tokens=2)}


def test_labels_show_defaults_too() -> None:
    shown = [label(parse(text).text) for text in BenchOptions().repairs]
    assert len(set(shown)) == 12
    assert "bcr-chunk 0.2 draft" in shown
    assert "bcr-grow 0.05 coin" in shown


def command(*arguments: Any) -> Result:
    return CliRunner().invoke(stats, [str(argument) for argument in arguments], catch_exceptions=False)


def test_stats_tabulates_a_bench_and_table_10_is_the_same(log: Path) -> None:
    shown = command(log)
    assert "transformers generate" in shown.stdout
    assert "GFLOP/s" in shown.stderr
    assert command(log, "--table", "10").stdout == shown.stdout
    rows = json.loads(command(log, "--format", "json").stdout)
    assert {row["kind"] for row in rows} == {"condition", "request", "assembly", "law"}  # targets are another model's
    rows = [row for row in rows if row["kind"] == "condition"]
    assert {row["workload"] for row in rows} == {"symbols=40", "short", "question"}
    dense = next(row for row in rows if row["condition"] == "dense")
    assert dense["decode_tokens_per_s"] > 0
    assert dense["speedup"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--paper"], "--paper: has no meaning"), (["--agents"], "--agents: has no meaning"),
        (["--table", "3"], "a bench, expected runs for --table 3"),
        (["--plot", "there"], "a bench, expected runs for --html and --plot"),
    ],
)  # fmt: skip
def test_what_a_bench_cannot_give_is_refused(
    log: Path, arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=words):
        command(log, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_benches_and_runs_do_not_mix(log: Path, tmp_path: Path) -> None:
    line = log.read_text(encoding="utf-8").splitlines()[0]
    run = tmp_path / "run.jsonl"
    run.write_text(line.replace('"bench":true', '"bench":false') + "\n", encoding="utf-8")
    with pytest.raises(UserError, match="no bench among 2 logs"):
        command(log, run)


def exits(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        main(["bench", *words])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out + err


def test_the_command_logs_and_writes_the_machines_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = "--model random:tiny --symbols 24 --prefix 8 --anchors 2 --rho 0.5 --layout single --repeat 1 --warm-up 0"
    code, told = exits(capsys, *words.split(), "--new-tokens", "2", "--no-short", "--threads", "1", "--save", "outputs",
                       "--no-throughput", "--rows", "16,32", "--pools", "2", "--layers", "2")  # fmt: skip
    assert code == 0, told
    [page] = (tmp_path / "outputs").iterdir()
    assert page.name.startswith("bench-")
    text = page.read_text(encoding="utf-8")
    assert "reuse" in text and "GB/s" in text
    assert str(tmp_path) not in text
    assert os.uname().nodename not in text
    assert len(list((tmp_path / "runs" / "bench").glob("*.jsonl"))) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--symbols 4,x", "--symbols '4,x': expected numbers"), ("--symbols 0", "symbols=0: expected 1"),
        ("--anchors 1", "anchors=1: expected 2"), ("--rho 2", "rho=2.0: expected"), ("--rho 0.1,0.1", "each once"),
        ("--layout cnuk", "layouts=cnuk: expected one of"), ("--repeat 0", "repeat=0: expected 1"),
        ("--model random:tinny", "did you mean"), ("--symbols 32768", "the positions of model 'random:tiny'"),
        ("--save notes", "notes is a file"), ("--pools 1", "pools=1: expected 2"), ("--rows 9,9", "each once"),
        ("--layers 1", "layers=1: expected 2"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_and_leave_nothing(
    words: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").write_text("", encoding="utf-8")
    code, said = exits(capsys, "--model", "random:tiny", *words.split())
    assert (code, len(said.strip().splitlines())) == (2, 1)
    assert told in said
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_a_dry_run_lists_what_would_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    code, told = exits(capsys, "--dry-run", "--layout", "chunk", "--rho", "0.2", "--select", "coin")
    assert code == 0
    assert "bcr-chunk:gamma=1.0,rho=0.2,select=coin" in told
    assert "nothing was run" in told


def test_a_machines_file_is_named_by_its_processor() -> None:
    assert machine.slug("Intel(R) Xeon(R) CPU @ 2.20GHz", 2) == "intel-r-xeon-r-cpu-2-20ghz-2-cores"
    assert machine.slug("NVIDIA H200", None) == "nvidia-h200"


def test_a_workloads_pool_is_let_go_before_the_next_one_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Any]] = []

    class Noted(Ring):
        def __init__(self, *arguments: Any) -> None:
            assert [held for held in made if held() is not None] == [], "two pools at once"
            super().__init__(*arguments)
            made.append(weakref.ref(self))

    monkeypatch.setattr("bcrbench.bench.run.Ring", Noted)
    options = replace(SMALL, repeat=1, warm_up=0, throughput=False, assembly=False)
    run_bench(Where("random:tiny", threads=1, out=str(tmp_path)), options, lambda line: None)
    assert len(made) == 3
