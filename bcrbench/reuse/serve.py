"""Serving the calls of a run: prefill or assembly, generation, and what the anchor pool learns (kvcomm.md 2).

One server per run. Each agent keeps a cache whose first rows are its own exact prefix (fixed_0), so that a reused
call writes only what follows; dense calls use a scratch cache and leave those rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

import torch

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.clock import Clock
from bcrbench.engine.decode import Generation, greedy, most_likely
from bcrbench.engine.model import Runtime
from bcrbench.reuse.anchors import Pool
from bcrbench.reuse.assemble import Weights, corrected, corrected_after, weigh
from bcrbench.reuse.block import Block, read, write
from bcrbench.reuse.gate import decide
from bcrbench.reuse.policies import CallView, KVComm, Policy
from bcrbench.reuse.segments import Prompt, Segment
from bcrbench.runs.schema import Gate, Rows, Served


@dataclass(frozen=True)
class Job:
    """One call to serve.

    `ids` are the tokens to prefill when they differ from the prompt's (whole-text tokenisation), `feeds` tells
    whether another agent will consume the response, `replay` gives the logged ids instead of decoding.
    """

    agent: str
    hears: tuple[str, ...]
    prompt: Prompt
    response: str
    feeds: bool
    ids: list[int] | None = None
    replay: list[int] | None = None


@dataclass(frozen=True)
class Outcome:
    """What a served call did."""

    served: Served
    why: str
    ids: list[int]
    generation: Generation
    rows: Rows
    gates: list[Gate]
    stages: dict[str, float]
    ttft_ms: float
    e2e_ms: float


class Server:
    """Serves calls under one policy; holds the pool, the caches and the current request's state.

    `headers` maps a shared segment to the ids it is prefilled behind when it is met (base=header).
    """

    def __init__(
        self, runtime: Runtime, policy: Policy, headers: Mapping[str, Sequence[int]], max_new_tokens: int
    ) -> None:
        self.runtime = runtime
        self.policy = policy
        self.headers = headers
        self.limit = max_new_tokens
        self.clock = Clock(runtime.device)
        self.pool: Pool | None = None
        if isinstance(policy, KVComm):
            self.pool = Pool(policy.capacity, policy.window)
        self.scratch = runtime.new_cache(0)
        self.caches: dict[str, SlotCache] = {}
        self.fixed: dict[str, list[Block]] = {}
        self.begin("")

    def prepare(self, agent: str, hollow: Prompt) -> None:
        """Prefill an agent's template once: its fixed segments' base rows, fixed_0 kept in the agent's cache.

        With base=header the stand-ins are in the shared places, as released; with base=empty every fixed segment
        after the first is prefilled alone.
        """
        if self.pool is None:
            return
        cache = self.runtime.new_cache(len(hollow.ids) + self.limit)
        self.runtime.run(hollow.ids, range(len(hollow.ids)), cache)
        segments = hollow.fixed()
        blocks = [read(cache, segment.start, segment.end) for segment in segments]
        if self._empty_base:
            alone = [self._alone(hollow.ids[segment.start : segment.end]) for segment in segments[1:]]
            blocks = [blocks[0], *alone]
        self.fixed[agent] = blocks
        self.caches[agent] = cache

    def begin(self, key: str) -> None:
        """Start a request: forget the previous one's segments, flags and weights."""
        self.key = key
        self.bases: dict[str, Block] = {}
        self.new: dict[str, bool] = {}
        self.weights: dict[str, Weights | None] = {}

    @torch.inference_mode()
    def serve(self, job: Job) -> Outcome:
        """Serve one call from start to end."""
        self.clock.reset()
        gates = self._meet(job)
        new = [segment.name for segment in job.prompt.shared() if self.new.get(segment.name)]
        served, why = self.policy.decide(CallView(job.agent, job.hears, new))
        ids = job.prompt.ids if job.ids is None else job.ids
        if served == "dense":
            cache, first = self._prefill(ids)
            rows = Rows(cached=len(ids) - 1, exact=len(ids) - 1, predicted=0)
        else:
            cache, first = self._reuse(job)
            exact = job.prompt.segments[0].length
            rows = Rows(cached=len(ids) - 1, exact=exact, predicted=len(ids) - 1 - exact)
        ttft = self.clock.elapsed()
        generation = self._generate(job, cache, first, len(ids))
        if self.pool is not None:
            gates += self._learn(job, served, cache, generation)
        return Outcome(
            served, why, ids, generation, rows, gates, dict(self.clock.stages), ttft, self.clock.elapsed()
        )

    @property
    def _empty_base(self) -> bool:
        return isinstance(self.policy, KVComm) and self.policy.base == "empty"

    def _frame(self, start: int) -> int:
        """Where keys stand while they are compared and corrected: at the call's position, or at 0."""
        canonical = isinstance(self.policy, KVComm) and self.policy.frame == "canonical"
        return 0 if canonical else start

    def _meet(self, job: Job) -> list[Gate]:
        """Base rows and gate for shared segments that this request has not met yet (the question)."""
        if self.pool is None:
            return []
        gates = []
        for segment in job.prompt.shared():
            if segment.name in self.bases:
                continue
            with self.clock.stage("base"):
                content = job.prompt.ids[segment.start : segment.end]
                header = [] if self._empty_base else self.headers.get(segment.name, [])
                self.bases[segment.name] = self._alone(content, header)
            gates.append(self._gate(segment.name))
        return gates

    def _alone(self, content: Sequence[int], header: Sequence[int] = ()) -> Block:
        """Rows of a text prefilled alone, or behind the header whose rows are dropped."""
        ids = [*header, *content]
        cache = self.runtime.new_cache(len(ids))
        if ids:
            self.runtime.run(ids, range(len(ids)), cache)
        return read(cache, len(header), len(ids))

    def _gate(self, name: str) -> Gate:
        assert self.pool is not None and isinstance(self.policy, KVComm)
        with self.clock.stage("gate"):
            gate = decide(name, self.bases[name].values, self.pool.bucket(name), self.policy.gamma)
        self.new[name] = gate.decision == "new"
        return gate

    def _prefill(self, ids: list[int]) -> tuple[SlotCache, int]:
        with self.clock.stage("first_token"):
            self.scratch.length = 0
            self.scratch.reserve(len(ids) + self.limit)
            first = most_likely(self.runtime.run(ids, range(len(ids)), self.scratch))
        return self.scratch, first

    def _reuse(self, job: Job) -> tuple[SlotCache, int]:
        ids = job.prompt.ids
        cache = self.caches[job.agent]
        with self.clock.stage("assemble"):
            cache.reserve(len(ids) + self.limit)
            self._assemble(job, cache)
        with self.clock.stage("first_token"):
            first = most_likely(self.runtime.run(ids[-1:], [len(ids) - 1], cache))
        return cache, first

    def _assemble(self, job: Job, cache: SlotCache) -> None:
        """Write every segment after fixed_0 as predicted rows; the last one without the prompt's last token."""
        segments = job.prompt.segments
        cache.length = segments[0].end
        served = len(job.prompt.ids) - 1
        for number, (segment, after) in enumerate(zip(segments[1::2], segments[2::2], strict=True), start=1):
            block, following = self._predict(job.agent, number, segment, after)
            write(cache, segment.start, block)
            write(cache, after.start, following.head(min(after.end, served) - after.start))

    def _predict(self, agent: str, number: int, segment: Segment, after: Segment) -> tuple[Block, Block]:
        assert self.pool is not None
        freq = self.runtime.inv_freq
        bucket = self.pool.bucket(segment.name)
        block = self.bases[segment.name].moved(self._frame(segment.start), freq)
        following = self.fixed[agent][number].moved(self._frame(after.start), freq)
        if segment.name not in self.weights:
            self.weights[segment.name] = weigh(block, bucket)
        weights = self.weights[segment.name]
        if weights is not None:
            block = corrected(block, bucket, agent, weights)
            following = corrected_after(following, bucket, agent, weights)
        return block.moved(segment.start, freq), following.moved(after.start, freq)

    def _generate(self, job: Job, cache: SlotCache, first: int, start: int) -> Generation:
        if job.replay is not None:
            stopped = job.replay[-1] in self.runtime.stop_ids()
            return Generation(job.replay, "stop" if stopped else "length")
        with self.clock.stage("decode"):
            return greedy(self.runtime, cache, first, start, self.limit)

    def _learn(self, job: Job, served: Served, cache: SlotCache, generation: Generation) -> list[Gate]:
        """Anchors of a dense call's new segments, then the response's base rows and its gate."""
        if served == "dense":
            with self.clock.stage("anchor"):
                self._store(job, cache)
        if not job.feeds:
            return []
        with self.clock.stage("response"):
            self.bases[job.response] = self._response(cache, len(job.prompt.ids), generation.ids[:-1])
        return [self._gate(job.response)]

    def _store(self, job: Job, cache: SlotCache) -> None:
        assert self.pool is not None
        segments = job.prompt.segments
        for number, (segment, after) in enumerate(zip(segments[1::2], segments[2::2], strict=True), start=1):
            if not self.new[segment.name]:
                continue
            base, delta = self._deviation(self.bases[segment.name], cache, segment)
            _, delta_after = self._deviation(self.fixed[job.agent][number], cache, after)
            self.pool.bucket(segment.name).store(self.key, job.agent, base, delta, delta_after)

    def _deviation(self, base: Block, cache: SlotCache, segment: Segment) -> tuple[Block, Block]:
        """The base rows in the frame, and how far the exact rows are from them (paper Eq. 1)."""
        frame = self._frame(segment.start)
        placed = base.moved(frame, self.runtime.inv_freq)
        real = read(cache, segment.start, segment.end).moved(frame, self.runtime.inv_freq)
        return placed, Block(real.keys - placed.keys, real.values - placed.values, frame)

    def _response(self, cache: SlotCache, start: int, content: list[int]) -> Block:
        """Rows of a response: one teacher-forced pass in its producer's cache, the same in runs and replays."""
        if self._empty_base:
            return self._alone(content)
        if content:
            self.runtime.run(content, range(start, start + len(content)), cache)
        return read(cache, start, start + len(content))
