"""Made-up logs for tests and benchmarks: outcomes are what the test says, the rest is plausible filling."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bcrbench.runs.schema import (
    Call,
    EndRecord,
    Gate,
    GradeRecord,
    ItemRecord,
    Rows,
    RunRecord,
    Stages,
    Status,
)

WORDS = [f"{a}{b}" for a in ("or", "se", "ta", "mi", "ku") for b in ("der", "lling", "x", "ven", "12", "=")]


def run_record(condition: str, count: int, **changes: Any) -> RunRecord:
    """A run record; a dictionary given for one of its parts is merged into that part."""
    fields: dict[str, Any] = {
        "schema_version": 1,
        "fingerprint": f"f-{condition}",
        "condition": condition,
        "task": "quotes",
        "cell": {"task": "quotes", "model": "w0", "agents": 3, "topology": "full", "roles": ["clerk"], "items": "set0"},
        "given": {"condition": condition},
        "resolved": {"seed": 0},
        "effective": {"policy": condition},
        "model": {"spec": "bundled", "id": "bundled", "revision": None, "weights_hash": "w0", "config_hash": "m0",
                  "dtype": "float32", "kernel": "sdpa"},
        "tokenizer": {"hash": "t0", "chat_template_hash": "c0"},
        "items": {"hash": "set0", "count": count, "total": count, "order": "task", "limit": None},
        "prompts": {"name": "quotes", "version": 1, "hash": "p0", "mode": "matched"},
        "grader": {"name": "exact", "version": 1},
        "seeds": {"run": 0},
        "packages": {"torch": "2.13.0"},
        "code": {"version": "0.1.0", "commit": None, "dirty": None},
        "device": {"kind": "cpu", "name": "x", "threads": 1},
        "host": {},
        "started": "2026-01-01T00:00:00+00:00",
        "stateful": False,
    }  # fmt: skip
    for name, change in changes.items():
        fields[name] = {**fields.get(name, {}), **change} if isinstance(change, dict) else change
    return RunRecord(**fields)


def item_record(index: int, outcome: str, rng: random.Random, agents: int = 3, **changes: Any) -> ItemRecord:
    """An item whose calls look like real ones."""
    fields: dict[str, Any] = {
        "index": index,
        "id": f"q{index}",
        "item_hash": f"h{index}",
        "gold": "4",
        "text": text(rng, 60),
        "prediction": "4" if outcome == "correct" else "5",
        "outcome": outcome,
        "calls": [call(rng, str(agent)) for agent in [*range(1, agents + 1), 0]],
        "wall_s": rng.uniform(0.5, 3.0),
        "pool_hash": "0123456789abcdef",
        "rng": [],
    }
    return ItemRecord(**{**fields, **changes})


def call(rng: random.Random, agent: str, tokens: int = 120) -> Call:
    """A call with a gate on three segments of fifteen anchors each."""
    return Call(
        agent=agent, role="buyer" if agent == "0" else "clerk", served=rng.choice(["dense", "reuse"]), why="gate",
        prompt_tokens=600, prompt_hash="0123456789abcdef", prompt_head=[1, 306, 9, 29, 1, 2, 3, 4],
        prompt_tail=[rng.randrange(49152) for _ in range(8)],
        rows=Rows(cached=599, exact=200, predicted=399, recomputed=rng.randrange(100)),
        text=text(rng, tokens * 2 // 3), ids=[rng.randrange(49152) for _ in range(tokens)], finish="stop",
        ms=Stages(gate=rng.random(), assemble=rng.random(), first_token=30 * rng.random(), decode=900 * rng.random()),
        ttft_ms=rng.uniform(20, 60), e2e_ms=rng.uniform(500, 900),
        gate=[
            Gate(segment=name, rows=90, anchors=20, available=15, decision="sharable", why="ok", entropy=rng.random(),
                 limit=1.17, distances=[100 * rng.random() for _ in range(15)])
            for name in ("question", "agent_1", "agent_2")
        ],
        gold=None if agent == "0" else "4", prediction=None if agent == "0" else "4",
        outcome=None if agent == "0" else rng.choice(["correct", "wrong"]),
    )  # fmt: skip


def text(rng: random.Random, words: int) -> str:
    """Some words."""
    return " ".join(rng.choices(WORDS, k=words))


def write_log(
    path: Path, condition: str, outcomes: Sequence[bool | str], seed: int = 0, status: Status | None = "complete",
    grades: Sequence[GradeRecord] = (), made: Sequence[ItemRecord] | None = None, agents: int = 3, **changes: Any,
) -> Path:  # fmt: skip
    """Write a log with these outcomes (True, False, or an outcome's own words); without an end record for None."""
    rng = random.Random(f"{condition} {seed}")
    words = [{True: "correct", False: "wrong"}.get(out, out) for out in outcomes]  # type: ignore[call-overload]
    made = made if made is not None else [item_record(k, word, rng, agents) for k, word in enumerate(words)]
    end = EndRecord(
        status=status or "complete", items=len(made), correct=0, calls=0, reused=0, new_tokens=0, wall_s=1.0,
        twins=sum(call.twin is not None for item in made for call in item.calls),
    )  # fmt: skip
    records = [run_record(condition, len(made), **changes), *made, *([end] if status else []), *grades]
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    return path
