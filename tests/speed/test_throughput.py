"""Whole requests of a bench: what each way serves, what it is charged, and what statistics make of it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from small_models import twins

from bcrbench.bench.options import DENSE, REUSE, BenchOptions
from bcrbench.bench.throughput import Office, check_positions, prompt_tokens
from bcrbench.errors import RunFailed, UserError
from bcrbench.reuse.policies.kvcomm import KVComm
from bcrbench.runs.schema import BenchRecord
from bcrbench.stats.bench_throughput import throughput_rows

OPTIONS = BenchOptions(anchors=3, layouts=("single", "chunk"), rho=(0.2,), agents=3, document=40, answer=5)
REPAIR = "bcr-single:gamma=1.0"


@cache
def office() -> Office:
    return Office(twins("llama").runtime, OPTIONS)


def test_every_agent_is_served_and_all_ways_have_the_same_requests() -> None:
    assert list(office().contestants) == [DENSE, REUSE, REPAIR]
    found = {name: serve() for name, serve in office().contestants.items()}
    for name, measured in found.items():
        assert measured.calls == OPTIONS.agents
        assert measured.new_tokens == OPTIONS.agents * OPTIONS.answer
        assert measured.prompt_tokens == OPTIONS.agents * prompt_tokens(OPTIONS) - OPTIONS.answer - 16 - 2
        assert measured.served_ms >= sum(measured.stages.values()) > 0
        assert (measured.rows > 0) == (name == REPAIR)
    assert found[DENSE].first_token == Office(twins("llama").runtime, OPTIONS).contestants[DENSE]().first_token


@pytest.mark.parametrize("name", [REUSE, REPAIR])
def test_a_pooled_request_is_charged_all_its_stages_and_stores_nothing(name: str) -> None:
    pool = office().pooled.pool
    assert pool is not None
    sizes = {key: len(bucket.anchors) for key, bucket in pool.buckets.items()}
    held = pool.bytes
    measured = office().contestants[name]()
    assert sizes == {"question": 3, "agent_1": 3, "agent_2": 3}
    assert {key: len(bucket.anchors) for key, bucket in pool.buckets.items()} == sizes and pool.bytes == held
    charged = {stage for stage, ms in measured.stages.items() if ms > 0}
    repaired = {"draft", "select", "repair"} if name == REPAIR else {"first_token"}
    assert charged == {"base", "gate", "assemble", "decode", "response"} | repaired


def test_a_call_that_is_not_reused_is_no_measurement() -> None:
    narrow = Office(twins("llama").runtime, OPTIONS)
    assert narrow.pooled.pool is not None
    narrow.pooled.pool.bucket("agent_2").anchors.clear()
    with pytest.raises(RunFailed, match="served dense .*agent_2.*expected reuse"):
        narrow.contestants[REUSE]()


def test_prompts_that_do_not_fit_are_refused() -> None:
    needed = prompt_tokens(OPTIONS) + OPTIONS.answer
    check_positions(OPTIONS, needed, "m")
    check_positions(replace(OPTIONS, throughput=False), 3, "m")
    with pytest.raises(UserError, match=f"document=40: prompts and answers of {needed} tokens, expected at most"):
        check_positions(OPTIONS, needed - 1, "m")


def line(condition: str, round_: int, ms: float, **changes: Any) -> BenchRecord:
    made = {
        "workload": "throughput", "condition": condition, "round": round_, "place": 0, "warm_up": round_ == 0,
        "prompt_tokens": 600, "rows": 0, "new_tokens": 30, "first_token": 1, "ttft_ms": ms / 2, "base_ms": 0.0,
        "work": [], "flops_per_s": 1.0, "bytes_per_s": 1.0, "wall_s": 1.0, "calls": 3, "served_ms": ms,
        "ms": {"base": ms / 4, "gate": 1.0, "assemble": 2.0, "decode": 5.0, "first_token": ms / 4},
    }  # fmt: skip
    from msgspec import convert

    return convert({**made, **changes}, BenchRecord)


class Logged:
    def __init__(self, benches: list[BenchRecord]) -> None:
        self.benches = benches


def test_rates_are_of_the_measured_rounds_and_ratios_within_one() -> None:
    lines = [line(name, k, ms) for name, times in (("dense", (9e9, 4000, 2000)), (REUSE, (1, 1000, 1000)))
             for k, ms in enumerate(times)]  # fmt: skip
    lines.append(line("dense", 1, 5.0, workload="short"))
    dense, reuse = throughput_rows(Logged(lines))  # type: ignore[arg-type]
    assert (dense["condition"], dense["request_ms"], dense["requests_per_min"]) == ("dense", 3000, 20)
    assert (dense["prompt_per_s"], dense["new_per_s"]) == (200, 10)
    assert (reuse["request_ms"], reuse["faster"], reuse["reuse_ms"], reuse["prefill_ms"]) == (1000, 3, 3, 500)
    assert dense["faster"] == 1 and throughput_rows(Logged([])) == []  # type: ignore[arg-type]


def test_the_pool_that_requests_need_is_kvcomms() -> None:
    assert isinstance(office().pooled.policy, KVComm)
