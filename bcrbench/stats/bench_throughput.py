"""A bench's whole requests as rows: requests a minute, tokens a second, and what each part of a request takes."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import Any

from bcrbench.runs.log import Log
from bcrbench.runs.schema import BenchRecord
from bcrbench.stats.bench_rows import DENSE, THROUGHPUT, label
from bcrbench.stats.bootstrap import median_of_ratios
from bcrbench.stats.summary import Row

_PREFILL = ("base", "first_token", "repair", "draft")  # passes up to a call's first token
_POOL = ("gate", "assemble", "select")
SAID = (
    "throughput: one request after another, each way serving the same ones; a request's document is new, so its base "
    "rows are charged, as are gates, assembly, repairs, decoding and the base rows of answers; the pool is full and no "
    "anchor is stored; faster: requests in the same time over dense's, median of the rounds' ratios with its 95 % "
    "bootstrap interval"
)


def throughput_rows(log: Log[Any]) -> list[Row]:
    """A row a condition: medians over rounds, and dense's time over its own, round by round. None without requests."""
    found: dict[str, dict[int, BenchRecord]] = defaultdict(dict)
    order = [record.condition for record in log.benches if record.workload == THROUGHPUT and not record.round]
    for record in log.benches:
        if record.workload == THROUGHPUT and not record.warm_up:
            found[record.condition][record.round] = record
    return [_row(name, found[name], found[DENSE]) for name in order if found[name]]


def _row(name: str, rounds: dict[int, BenchRecord], dense: dict[int, BenchRecord]) -> Row:
    records = list(rounds.values())
    shared = [k for k in sorted(rounds) if k in dense]
    ratio = (
        median_of_ratios([dense[k].served_ms for k in shared], [rounds[k].served_ms for k in shared])
        if shared
        else None
    )
    seconds = median(record.served_ms for record in records) / 1e3
    parts = {
        "prefill": median(_sum(record, _PREFILL) for record in records),
        "reuse": median(_sum(record, _POOL) for record in records),
        "decode": median(record.ms.decode for record in records),
        "answers": median(record.ms.response for record in records),
    }
    return {
        "condition": label(name),
        "calls": records[0].calls,
        "request_ms": 1e3 * seconds,
        "requests_per_min": 60 / seconds,
        "prompt_per_s": median(record.prompt_tokens for record in records) / seconds,
        "new_per_s": median(record.new_tokens for record in records) / seconds,
        "faster": ratio.value if ratio else None,
        "faster_low": ratio.low if ratio else None,
        "faster_high": ratio.high if ratio else None,
        **{f"{part}_ms": value for part, value in parts.items()},
    }


def _sum(record: BenchRecord, stages: tuple[str, ...]) -> float:
    return float(sum(getattr(record.ms, stage) for stage in stages))
