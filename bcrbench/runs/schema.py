"""The run log's records, field by field; `docs/log-schema.md` explains each one.

Every line of a log is one of these, told apart by its `record` key. Unknown keys are an error on reading, so a log
of a newer schema is refused rather than half understood. No torch here: statistics read logs without it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

SCHEMA_VERSION = 3

Served = Literal["dense", "reuse"]
Status = Literal["complete", "cancelled", "failed"]
Outcome = Annotated[str, msgspec.Meta(pattern="^(correct|wrong|ungraded|error:.+)$")]


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A record part without unknown keys."""


class Gate(Strict):
    """The gate's decision on one shared segment (paper Eq. 2)."""

    segment: str
    rows: int  # length of the candidate
    anchors: int  # pool size for this segment
    available: int  # anchors at least as long as the candidate
    decision: Literal["new", "sharable"]
    why: str  # "pool", "length", "entropy", "forced", or "ok"
    entropy: float | None = None  # bits
    limit: float | None = None  # gamma * log2(available), bits
    distances: list[float] | None = None  # L2 over all layers, heads and rows, in pool order of the available


class Rows(Strict):
    """Rows of the served cache by provenance, and what a repair chose."""

    cached: int  # M, the rows that generation starts from
    exact: int
    predicted: int
    selected: int = 0
    recomputed: int = 0
    transplanted: int = 0
    selected_exact: int = 0  # selected rows that were exact already


class Stages(Strict):
    """Milliseconds per stage of a call; device-synchronised. A stage that did not happen is 0."""

    base: float = 0.0  # stand-alone prefill of a segment seen for the first time
    gate: float = 0.0  # matching against the pool
    assemble: float = 0.0  # rotation, weights, blending into the call's cache
    draft: float = 0.0
    select: float = 0.0
    repair: float = 0.0
    first_token: float = 0.0  # the pass that gives the first token (a whole prefill when dense)
    decode: float = 0.0  # the remaining tokens
    anchor: float = 0.0  # storing deviations in the pool
    response: float = 0.0  # the teacher-forced pass over the response


class Feedback(Strict):
    """What a tool said of an agent's response; the shared segment `condition_<agent>` (decision 14)."""

    tool: str
    text: str  # the segment's content
    outcome: str  # "ok", or why there is no result: "error:timeout", "no-code", ...


class Twin(Strict):
    """The same call served once more, by a full prefill of the same ids, so that times pair up (Table 10)."""

    ttft_ms: float
    e2e_ms: float
    tokens: int  # generated
    first: bool  # served before the reuse rather than after it
    ms: Stages


class Call(Strict):
    """One agent's prompt and its generation."""

    agent: str
    role: str
    served: Served
    why: str  # reason for how it was served, e.g. "policy", "gate", "new:question,agent_1"
    prompt_tokens: int
    prompt_hash: str  # first 16 hex digits of SHA-256 over the ids as little-endian int32
    prompt_head: list[int]  # first 8 ids
    prompt_tail: list[int]  # last 8 ids
    rows: Rows
    text: str
    ids: list[int]  # generated ids, the stopping token included; replay feeds them
    finish: Literal["stop", "length"]
    ms: Stages
    ttft_ms: float  # from the call's start to its first token, everything in between included
    e2e_ms: float  # from the call's start to its end
    gate: list[Gate] = []
    text_tokens_equal: bool | None = None  # do merged ids equal the whole text's tokenisation
    draft_ids: list[int] | None = None
    selected_spans: list[tuple[int, int]] | None = None  # [start, end) of selected rows
    skipped: str | None = None  # why a repair chose no rows of a reused call
    gold: str | None = None  # the agent's own gold answer, where the task has one
    prediction: str | None = None
    outcome: Outcome | None = None
    feedback: Feedback | None = None  # what a tool said of this call's response
    twin: Twin | None = None  # the dense serving beside a reused call, in runs that compare times
    warm_up: bool = False  # a call whose times are left out


class ItemRecord(Strict, tag_field="record", tag="item"):
    """One item: everything that one request did."""

    index: int  # position in the run's order
    id: str
    item_hash: str
    gold: str
    text: str  # the deciding node's answer
    prediction: str | None
    outcome: Outcome  # "correct", "wrong", "ungraded" or "error:<kind>"
    calls: list[Call]
    wall_s: float
    reason: str | None = None  # why the outcome is what it is, where the grader tells
    pool_hash: str | None = None  # the anchor pool after the item; None for stateless runs
    rng: list[int] | None = None  # positions of the run's random streams


class RunRecord(Strict, tag_field="record", tag="run"):
    """The first line: what ran, on what, from which code."""

    schema_version: int
    fingerprint: str  # hash of everything below that can change an outcome
    condition: str  # canonical condition string
    task: str
    cell: dict[str, Any]  # task, model, agents, topology, roles, item set: conditions are compared inside a cell
    given: dict[str, Any]  # what a person gave (flags, recipe, file)
    resolved: dict[str, Any]  # what it resolved to, defaults included
    effective: dict[str, Any]  # parameters read back from the running policy, e.g. gamma
    model: dict[str, Any]  # spec, id, revision, weights_hash, dtype, kernel, backend
    tokenizer: dict[str, Any]  # hash, chat_template_hash
    items: dict[str, Any]  # hash, count, total, order, limit
    prompts: dict[str, Any]  # name, version, hash, mode
    grader: dict[str, Any]  # name, version
    seeds: dict[str, Any]
    packages: dict[str, str]
    code: dict[str, Any]  # version, commit, dirty
    device: dict[str, Any]  # kind, name, threads
    host: dict[str, Any]
    started: str  # ISO 8601, UTC
    stateful: bool
    tools: dict[str, Any] = {}  # what the tools ran with: the sandbox's level, the hash of the recorded pages


class GradeRecord(Strict, tag_field="record", tag="grade"):
    """A grading appended later."""

    id: str
    grader: str
    grader_version: int
    prediction: str | None
    outcome: Outcome
    reason: str | None = None


class ProbeRecord(Strict, tag_field="record", tag="probe"):
    """One way of restoring part of one prompt's reused segment, and the error that is left (section 4.2, Table 8)."""

    prompt: int  # position among the measured prompts
    prompt_hash: str
    unit: int  # rows that are chosen together: 0 restores nothing, the segment's length everything
    chooser: Literal["none", "attention", "coin", "all"]
    operator: Literal["none", "transplant", "recompute"]
    seed: int | None  # the coin's
    rows: int  # rows restored
    segment: int  # rows of the reused segment
    budget: float  # rows / segment
    error: float  # relative L2 distance of the attention output from Dense's, pooled over layers, heads and queries
    wall_s: float  # since the line before, so that a prompt's first line holds its prefill and assembly


class Work(Strict):
    """What a stage cannot avoid doing, by the model's configuration (bench/arithmetic.py)."""

    stage: str
    flops: float
    bytes: float


class BenchRecord(Strict, tag_field="record", tag="bench"):
    """One serving of a bench's prompt, or of a whole request, in one round (Table 10, App. C)."""

    workload: str  # which prompt: "symbols=4096", or "short"; "throughput" for whole requests
    condition: str  # canonical condition, or "generate" for transformers' own
    round: int
    place: int  # in the round's order, which alternates
    warm_up: bool  # a serving whose times are left out
    prompt_tokens: int
    rows: int  # rows repaired
    new_tokens: int  # decoded after the first token
    first_token: int
    ttft_ms: float  # the gate's decision, all stages and what lies between them
    ms: Stages
    base_ms: float  # what the shared segments' base rows took, once a workload; in no TTFT
    work: list[Work]
    flops_per_s: float  # a large matrix product's rate, measured at the round's start
    bytes_per_s: float  # a large copy's rate, both directions counted, measured there too
    wall_s: float  # since the line before, so that a round's first line holds what was measured of the machine
    calls: int = 0  # of a whole request, whose tokens, rows and times are sums over them
    served_ms: float = 0.0  # from a whole request's start to its last token


class Memory(Strict):
    """Bytes that the session which ended a run took at its peak, and what they were for."""

    peak: int  # resident in the process
    peak_since: Literal["run", "process"]  # what the peak is of: of this run, or of the process's whole life
    weights: int  # of the model
    pool: int | None = None  # in the anchor pool's buffers at the end; None without a pool
    pool_peak: int | None = None  # the most that they were
    evicted_for_bytes: int | None = None  # anchors given up because the pool's budget of bytes was reached
    device_peak: int | None = None  # allocated on the CUDA device; None elsewhere
    device_reserved: int | None = None  # kept by CUDA's allocator


class EndRecord(Strict, tag_field="record", tag="end"):
    """The last line of a run that ended by itself. A log without one was killed."""

    status: Status
    items: int
    correct: int
    calls: int
    reused: int
    new_tokens: int
    wall_s: float  # sum over the items' wall times, so that it covers every session of a resumed run
    why: str = ""
    twins: int = 0  # reused calls with a dense twin
    warm_ups: int = 0  # calls whose times are left out
    memory: Memory | None = None  # None where nothing measured it


Record = RunRecord | ItemRecord | GradeRecord | ProbeRecord | BenchRecord | EndRecord
