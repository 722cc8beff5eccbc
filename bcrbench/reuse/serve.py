"""Serving the calls of a run: prefill or assembly, generation, and bookkeeping.

One server per run. Each agent keeps a cache whose first rows are its own exact prefix (fixed_0), so that a reused
call writes only what follows; dense calls use a scratch cache and leave those rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Mapping, Sequence

import torch

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.clock import Clock
from bcrbench.engine.decode import Generation, greedy, most_likely
from bcrbench.engine.model import Runtime
from bcrbench.repair.view import RepairView, Start
from bcrbench.reuse.anchors import Pool
from bcrbench.reuse.block import write
from bcrbench.reuse.policies import CallView, KVComm, Policy
from bcrbench.reuse.segments import Prompt
from bcrbench.reuse.shared import SharedSegments
from bcrbench.reuse.twin import NO_STOPS, Timing, Twins
from bcrbench.runs.schema import Gate, Rows, Served, Twin


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
    start: Start
    gates: list[Gate]
    stages: dict[str, float]
    ttft_ms: float
    e2e_ms: float
    twin: Twin | None = None
    warm_up: bool = False


class Server:
    """Serves calls under one policy; counts what its random streams depend on.

    `headers` maps a shared segment to the ids it is prefilled behind when it is met (base=header). With `fixed_length`
    no token ends a generation before `max_new_tokens`.
    """

    def __init__(
        self,
        runtime: Runtime,
        policy: Policy,
        headers: Mapping[str, Sequence[int]],
        max_new_tokens: int,
        fixed_length: bool = False,
        timing: Timing | None = None,
    ) -> None:
        self.runtime = runtime
        self.policy = policy
        self.limit = max_new_tokens
        self.stops = NO_STOPS if fixed_length else runtime.stop_ids()
        self.timing = timing or Timing()
        self.clock = Clock(runtime.device)
        self.shared = SharedSegments(runtime, policy, headers, self.clock) if isinstance(policy, KVComm) else None
        self.scratch = runtime.new_cache(0)
        self.caches: dict[str, SlotCache] = {}
        self.opportunities = 0  # calls that the gate would have reused
        self.repaired = 0  # calls in which a repair engaged
        self.reused = 0  # calls served from an assembled cache
        self.twins = Twins(runtime, policy, self.scratch) if self.timing.twins else None

    @property
    def pool(self) -> Pool | None:
        """The anchor pool, when the policy keeps one."""
        return self.shared.pool if self.shared is not None else None

    @property
    def streams(self) -> list[int]:
        """Positions of the run's random streams, as logged."""
        return [self.repaired, self.opportunities]

    def prepare(self, agent: str, hollow: Prompt) -> None:
        """Prefill an agent's template once, where the policy needs it."""
        if self.shared is None:
            return
        rows = len(hollow.ids)
        self.caches[agent] = self.runtime.new_cache(rows + self.runtime.room(rows, self.limit))
        self.shared.prepare(agent, hollow, self.caches[agent])

    @contextmanager
    def untimed(self) -> Iterator[None]:
        """Serve calls that no log will hold: without twins, and none of them counts as a warm-up of the times."""
        twins, reused, self.twins = self.twins, self.reused, None
        try:
            yield
        finally:
            self.twins, self.reused = twins, reused

    def begin(self, key: str) -> None:
        """Start a request."""
        if self.shared is not None:
            self.shared.begin(key)

    @torch.inference_mode()
    def serve(self, job: Job) -> Outcome:
        """Serve one call from start to end. Raises RunFailed for a prompt that the model has no positions for."""
        ids = job.prompt.ids if job.ids is None else job.ids
        for fed in (ids, job.prompt.ids):
            self.runtime.room(len(fed), self.limit)
        self.clock.reset()
        gates = self.shared.meet(job.prompt) if self.shared is not None else []
        served, why = self._decide(job)
        cache, start = self.scratch, None
        if served == "reuse":
            self._twin_before(job)
            cache = self.caches[job.agent]
            start = self._reuse(job, cache)
            why = why if start.refused is None else start.refused
        if start is None or start.refused is not None:
            served, cache = "dense", self.scratch
            start = self._prefill(ids, start)
        ttft = self.clock.elapsed()
        rows = self._rows(job, ids, served, start)
        generation = self._generate(job, cache, start, len(ids))
        if self.shared is not None:
            gates += self._learn(job, served, cache, generation)
            self._restore(job, served, cache, start)
        stages, whole = dict(self.clock.stages), self.clock.elapsed()
        twin, warm_up = self._reused(job, generation) if served == "reuse" else (None, False)
        return Outcome(served, why, ids, generation, rows, start, gates, stages, ttft, whole, twin, warm_up)

    def _decide(self, job: Job) -> tuple[Served, str]:
        new = self.shared.new_in(job.prompt) if self.shared is not None else []
        decision = self.policy.decide(CallView(job.agent, job.hears, new, self.opportunities))
        self.opportunities += not new
        return decision

    def _prefill(self, ids: list[int], refused: Start | None) -> Start:
        with self.clock.stage("first_token"):
            self.scratch.length = 0
            self.scratch.reserve(len(ids) + self.runtime.room(len(ids), self.limit))
            logits = self.policy.prefill(self.runtime, ids, self.scratch)
            first = most_likely(logits)
        return Start([first], draft_ids=refused.draft_ids if refused is not None else None)

    def _reuse(self, job: Job, cache: SlotCache) -> Start:
        assert self.shared is not None
        prompt = job.prompt
        with self.clock.stage("assemble"):
            cache.reserve(len(prompt.ids) + self.runtime.room(len(prompt.ids), self.limit))
            self.shared.assemble(job.agent, prompt, cache)
        exact = prompt.segments[0].length
        served = len(prompt.ids) - 1
        view = RepairView(
            runtime=self.runtime,
            cache=cache,
            ids=prompt.ids,
            segments=prompt.segments,
            exact=[row < exact for row in range(served)],
            index=self.repaired,
            fill=self.shared.fill(prompt),
            clock=self.clock,
        )
        start = self.policy.start(view)
        self.repaired += bool(start.rows)
        return start

    def _rows(self, job: Job, ids: list[int], served: Served, start: Start) -> Rows:
        cached = len(ids) - 1
        if served == "dense":
            return Rows(cached=cached, exact=cached, predicted=0)
        exact = min(job.prompt.segments[0].length, cached)
        return Rows(
            cached=cached,
            exact=exact,
            predicted=cached - exact,
            selected=len(start.rows),
            recomputed=0 if start.transplanted else len(start.rows),
            transplanted=len(start.rows) if start.transplanted else 0,
            selected_exact=sum(row < exact for row in start.rows),
        )

    def _generate(self, job: Job, cache: SlotCache, start: Start, place: int) -> Generation:
        if job.replay is not None:
            return Generation(job.replay, "stop" if job.replay[-1] in self.stops else "length")
        with self.clock.stage("decode"):
            return greedy(self.runtime, cache, start.ids, place, self.runtime.room(place, self.limit), self.stops)

    def _twin_before(self, job: Job) -> None:
        if self.twins is not None and job.replay is None:
            ids = job.prompt.ids
            with self.clock.paused():
                self.twins.before(job.agent, ids, self.runtime.room(len(ids), self.limit), known=not self.stops)

    def _reused(self, job: Job, generation: Generation) -> tuple[Twin | None, bool]:
        """Count a reused call; its twin, and whether it is a warm-up."""
        self.reused += 1
        warm_up = self.reused <= self.timing.warm_up
        if self.twins is None:
            return None, warm_up
        if job.replay is not None:
            self.twins.replayed(job.agent)
            return None, warm_up
        return self.twins.after(job.agent, job.prompt.ids, len(generation.ids)), warm_up

    def _learn(self, job: Job, served: Served, cache: SlotCache, generation: Generation) -> list[Gate]:
        """Anchors of a dense call's new segments, then the response's base rows and its gate."""
        assert self.shared is not None
        if served == "dense":
            with self.clock.stage("anchor"):
                self.shared.learn(job.agent, job.prompt, cache)
        if not job.feeds:
            return []
        # The last token never enters a cache.
        return [self.shared.respond(job.response, generation.ids[:-1], len(job.prompt.ids), cache)]

    def _restore(self, job: Job, served: Served, cache: SlotCache, start: Start) -> None:
        """Put the agent's own prefix back as it was prefilled, where a repair has run over it."""
        assert self.shared is not None
        prefix = self.shared.fixed[job.agent][0]
        if served == "reuse" and start.touched < prefix.tokens:
            write(cache, 0, prefix)
