"""Made-up logs that hold what figures draw: a pool that fills, repairs at several budgets, a probe."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from loglines import call, item_record, run_record, write_log

from bcrbench.runs.log import ItemOutcome, Log
from bcrbench.runs.schema import Call, EndRecord, Gate, ItemRecord, ProbeRecord, Rows, Stages
from bcrbench.stats.arms import make_arms
from bcrbench.stats.cells import Cell, make_cells
from bcrbench.stats.figures.source import read_for_figures

CAPACITY = 20


def gate(segment: str, anchors: int) -> Gate:
    """A decision with so many anchors in the pool."""
    return Gate(segment=segment, rows=30, anchors=anchors, available=anchors, decision="sharable", why="ok")


def served(rng: random.Random, agent: str, reuse: bool, **changes: Any) -> Call:
    """A short call, reused or dense."""
    made = call(rng, agent, tokens=6)
    rows = Rows(cached=99, exact=40, predicted=59) if reuse else Rows(cached=99, exact=99, predicted=0)
    fields: dict[str, Any] = {"served": "reuse" if reuse else "dense", "rows": rows, "gate": [], "prompt_tokens": 100}
    return msgspec.structs.replace(made, **{**fields, **changes})


def reusing_items(outcomes: Sequence[bool], first: int = 0, agents: int = 2) -> list[ItemRecord]:
    """Items whose calls are reused from item `first` on, with a pool that fills by one anchor an item."""
    rng = random.Random(f"reuse {len(outcomes)}")
    made = []
    for k, good in enumerate(outcomes):
        calls = [
            served(rng, str(agent), k >= first, gate=[gate("question", min(k, CAPACITY))], ms=Stages(repair=1.0 + k))
            for agent in range(1, agents + 1)
        ]
        made.append(item_record(k, "correct" if good else "wrong", rng, calls=calls))
    return made


def dense_items(outcomes: Sequence[bool], agents: int = 2) -> list[ItemRecord]:
    """The same items, every call dense and without a gate."""
    rng = random.Random(len(outcomes))
    return [
        item_record(k, "correct" if good else "wrong", rng,
                    calls=[served(rng, str(agent), False) for agent in range(1, agents + 1)])
        for k, good in enumerate(outcomes)
    ]  # fmt: skip


def write_probe(path: Path, prompts: int = 3, seeds: int = 2) -> Path:
    """A probe's log: attention better than the coin at unit 1, the whole segment without an error."""
    facts = {"probe": "units", "segment_tokens": 64, "rho": 0.2, "seeds": list(range(seeds)), "role": "clerk"}
    records: list[Any] = [run_record("units:segment_tokens=64", 9, effective=facts)]
    for prompt in range(prompts):
        records.append(_probe(prompt, 0, "none", "none", 0.1, None))
        for operator in ("transplant", "recompute"):
            records.append(_probe(prompt, 1, "attention", operator, 0.03, None))
            records += [_probe(prompt, 1, "coin", operator, 0.08 + seed / 100, seed) for seed in range(seeds)]
            records.append(_probe(prompt, 64, "all", operator, 0.0, None))
    records.append(EndRecord(status="complete", items=0, correct=0, calls=0, reused=0, new_tokens=0, wall_s=1.0))
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    return path


def _probe(prompt: int, unit: int, chooser: Any, operator: Any, error: float, seed: int | None) -> ProbeRecord:
    rows = {0: 0, 1: 13, 64: 64}[unit]
    return ProbeRecord(prompt=prompt, prompt_hash="h", unit=unit, chooser=chooser, operator=operator, seed=seed,
                       rows=rows, segment=64, budget=rows / 64, error=error, wall_s=1.0)  # fmt: skip


def cell_of(paths: Sequence[Path]) -> Cell:
    """The one cell of some logs, read for figures."""
    (cell,), _ = make_cells(make_arms([read_for_figures(path) for path in paths]), None)
    return cell


def read_probe(path: Path) -> Log[ItemOutcome]:
    """A probe's log, read as the command reads it."""
    return read_for_figures(path)


def repair_log(path: Path, outcomes: Sequence[bool], rho: float, seed: int) -> Path:
    """A coin's repair at a budget and a seed."""
    condition = f"bcr-chunk:gamma=0.3,rho={rho},select=coin,seed={seed}"
    effective = {"policy": "BcrChunk", "gamma": 0.3, "rho": rho, "select": "coin", "seed": seed}
    return write_log(path, condition, outcomes, made=reusing_items(outcomes), effective=effective)
