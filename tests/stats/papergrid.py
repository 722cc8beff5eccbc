"""Made-up logs of every cell that a table of the paper needs, small: what the tables print can be counted by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from loglines import run_record

from bcrbench.runs.schema import Call, EndRecord, ItemRecord, ProbeRecord, Record, Rows, Stages, Status, Twin

TASKS = ("mmlu", "gsm8k", "humaneval")
GAMMA = {"humaneval": 1.0}
GRID = ("dense", "kvcomm:gamma={g}", "cacheblend:gamma={g},match=reuse:0.6", "cacheblend:gamma={g},match=cost",
        "bcr-chunk:gamma={g}", "bcr-grow:gamma={g}", "bcr-single:gamma={g}")  # fmt: skip
COINS = [
    f"bcr-chunk:gamma=0.3,rho={rho},select=coin,seed={seed}" for rho in (0.05, 0.1, 0.2, 0.3, 0.4) for seed in range(4)
]
CAPS = [f"bcr-grow:gamma=0.3,cap={cap}" for cap in (2, 4, 8, 16)]
PINNED = ["dense", "kvcomm:gamma=0.3", "bcr-chunk:gamma=0.3", "dense:tokens=merged",
          *(f"bcr-chunk:gamma=0.3,select=coin,seed={seed}" for seed in range(3))]  # fmt: skip
POLICIES = ["protect-root:gamma=0.3", "protect-leaf:gamma=0.3", "random:gamma=0.3"]
SYMBOLS = (64, 512, 2048, 4096)


def one_call(rng: random.Random, agent: str, **changes: Any) -> Call:
    """A short call; reused calls repair some rows."""
    reused = rng.random() < 0.6
    rows = Rows(cached=99, exact=40, predicted=59, selected=20 * reused, recomputed=rng.randrange(10, 30) * reused)
    fields: dict[str, Any] = {
        "agent": agent, "role": "solver", "served": "reuse" if reused else "dense", "why": "gate",
        "prompt_tokens": 100, "prompt_hash": "0123456789abcdef", "prompt_head": [1], "prompt_tail": [2], "rows": rows,
        "text": "x", "ids": [1], "finish": "stop", "ms": Stages(draft=rng.uniform(1, 5)),
        "ttft_ms": rng.uniform(20, 60), "e2e_ms": rng.uniform(500, 900),
        "selected_spans": [(0, 4), (9, 9 + rng.randrange(1, 9))] if reused else None,
    }  # fmt: skip
    return Call(**{**fields, **changes})


def items_of(rng: random.Random, outcomes: Sequence[str], agents: int, task: str, **changes: Any) -> list[ItemRecord]:
    """Items with these outcomes."""
    return [
        ItemRecord(
            index=k, id=f"{task}{k}", item_hash=f"h{k}", gold="4", text=f"{rng.random()}", prediction=None,
            outcome=outcome, calls=[one_call(rng, str(a), **changes) for a in [*range(1, agents + 1), 0]], wall_s=1.0,
        )
        for k, outcome in enumerate(outcomes)
    ]  # fmt: skip


def save(path: Path, records: Sequence[Record], status: Status | None = "complete", count: int = 0) -> Path:
    """Write records and how they ended."""
    end = EndRecord(
        status=status or "complete", items=count, correct=0, calls=0, reused=0, new_tokens=0, wall_s=1.0
    )  # fmt: skip
    whole = [*records, *([end] if status else [])]
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in whole))
    return path


def cell_log(
    folder: Path, condition: str, task: str = "gsm8k", agents: int = 3, n: int = 8, pinned: bool = False,
    outcomes: Sequence[str] | None = None, status: Status | None = "complete", calls: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Path:  # fmt: skip
    """A log of a condition in a cell; outcomes are drawn unless given."""
    rng = random.Random(f"{condition} {task} {agents} {n} {pinned} {changes}")
    outcomes = outcomes or rng.choices(["correct", "wrong"], [3, 1], k=n)
    items = items_of(rng, outcomes, agents, task, **(calls or {}))
    size = changes.pop("size", len(outcomes))
    roles = ["a"] * agents if pinned else ["a", "b"] * agents
    cell = {"task": task, "model": "w0", "agents": agents, "topology": "full", "roles": roles,
            "items": f"{task}{size}", **changes.pop("cell", {})}  # fmt: skip
    record = run_record(
        condition, len(items), fingerprint=f"{condition}{agents}{task}{n}{pinned}{changes}", task=task, cell=cell,
        items={"hash": f"{task}{size}", "count": size, "total": size, **changes.pop("items", {})},
        resolved={"roles": "pin:a" if pinned else "cycle"}, effective={}, **changes,
    )  # fmt: skip
    name = f"{len(list(folder.iterdir())):03}.jsonl"
    return save(folder / name, [record, *items], status, len(items))


def probe_log(folder: Path, prompts: int = 3) -> Path:
    """A probe of the paper's units."""
    rng = random.Random(0)
    made: list[ProbeRecord] = []

    def add(prompt: int, unit: int, chooser: Any, operator: Any, seed: int | None = None) -> None:
        error = {"none": 0.1, "all": 0.0, "coin": 0.08, "attention": 0.05}[chooser] * rng.uniform(0.9, 1.1)
        made.append(
            ProbeRecord(
                prompt=prompt, prompt_hash="h", unit=unit, chooser=chooser, operator=operator, seed=seed, rows=410,
                segment=2048, budget=0.2, error=error, wall_s=1.0,
            )
        )  # fmt: skip

    for prompt in range(prompts):
        add(prompt, 0, "none", "none")
        for operator in ("transplant", "recompute"):
            for unit in (1, 64, 1024):
                add(prompt, unit, "attention", operator)
                for seed in range(2):
                    add(prompt, unit, "coin", operator, seed)
            add(prompt, 2048, "all", operator)
    effective = {"probe": "units", "segment_tokens": 2048, "rho": 0.2, "seeds": [0, 1], "role": "clerk"}
    record = run_record("units:segment_tokens=2048", 9, effective=effective)
    return save(folder / "probe.jsonl", [record, *made])


def twin_log(folder: Path, condition: str, symbols: int, kernel: str = "flash") -> Path:
    """A run that served reused calls by a full prefill too; its first call is a warm-up."""
    rng = random.Random(f"{condition} {symbols}")
    twin = Twin(ttft_ms=100.0 + symbols, e2e_ms=900.0, tokens=1, first=False, ms=Stages())
    items = items_of(rng, ["ungraded"] * 3, 5, f"copy{symbols}-", twin=twin, served="reuse")
    items[0].calls[0].warm_up = True
    items[0].calls[0].ttft_ms = 1e6
    cell = {"task": "copymachine", "agents": 5, "items": f"c{symbols}"}
    record = run_record(
        condition, 3, fingerprint=f"{condition}{symbols}{kernel}", task="copymachine", cell=cell, effective={},
        resolved={"data": f"symbols={symbols}"}, model={"kernel": kernel}, items={"hash": f"c{symbols}"},
        grader={"name": "none"},
    )  # fmt: skip
    name = f"copy{len(list(folder.iterdir()))}.jsonl"
    return save(folder / name, [record, *items], "complete", 3)


def everything(folder: Path) -> Path:
    """Logs that fill every table."""
    for task in TASKS:
        for agents in (2, 3, 4, 5):
            for condition in GRID:
                own = 1.0 if task == "gsm8k" and condition.startswith("cacheblend") else GAMMA.get(task, 0.3)
                cell_log(folder, condition.format(g=own), task, agents)
    for agents in (2, 4):
        for condition in CAPS:
            cell_log(folder, condition, agents=agents)
    for condition in COINS:
        cell_log(folder, condition, agents=2)
    for condition in ("opengate:theta=0.5", *(f"kvcomm:gamma={gamma}" for gamma in (0.5, 0.7, 1.0))):
        cell_log(folder, condition, agents=3)
    for condition in [*PINNED, *POLICIES]:
        cell_log(folder, condition, agents=5, pinned=True)
    for condition in PINNED:
        cell_log(folder, condition, "mmlu", 5, pinned=True)
    probe_log(folder)
    for symbols in SYMBOLS:
        twin_log(folder, "kvcomm:gamma=0.3", symbols)
        twin_log(folder, "bcr-chunk:gamma=0.3,select=coin", symbols, "sdpa")
        twin_log(folder, "bcr-chunk:gamma=0.3", symbols)
        for rho in (0.05, 0.1, 0.2, 0.3, 0.4):
            twin_log(folder, f"bcr-chunk:gamma=0.3,rho={rho},select=coin", symbols)
    return folder
