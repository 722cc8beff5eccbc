"""What is measured: each way of serving one prompt, with its times and the work that it could not avoid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bcrbench.bench import arithmetic
from bcrbench.bench.arithmetic import Shape
from bcrbench.bench.generate import generate
from bcrbench.bench.options import DENSE, GENERATE, REUSE, BenchOptions
from bcrbench.bench.pool import AGENT, FullPool
from bcrbench.bench.workload import Workload
from bcrbench.conditions import parse
from bcrbench.engine.model import Runtime
from bcrbench.reuse.policies import Dense
from bcrbench.reuse.policies.kvcomm import KVComm
from bcrbench.reuse.policies.repaired import Repaired
from bcrbench.reuse.segments import Prompt
from bcrbench.reuse.serve import Job, Outcome, Server
from bcrbench.reuse.shared import pairs
from bcrbench.runs.schema import Stages, Work


@dataclass(frozen=True)
class Measured:
    """One serving: times, the first token, rows that a repair chose, tokens decoded after the first, and its work.

    Of a whole request also its calls, all their prompts' tokens, and how long it took; its new tokens are all of them.
    """

    ttft_ms: float
    stages: Mapping[str, float]
    first_token: int
    rows: int
    new_tokens: int
    work: list[Work]
    prompt_tokens: int = 0
    calls: int = 0
    served_ms: float = 0.0

    @property
    def ms(self) -> Stages:
        """Stages as a log keeps them."""
        return Stages(**{name: round(value, 4) for name, value in self.stages.items()})


Contestant = Callable[[], Measured]


class Ring:
    """All ways of serving a workload's prompt, by name in the order in which they are shown."""

    def __init__(self, runtime: Runtime, load: Workload, options: BenchOptions) -> None:
        self.runtime, self.options = runtime, options
        self.shape = Shape.of(runtime.model.config, runtime.dtype.itemsize)
        self.full = FullPool(runtime, load, options.anchors)
        self.base_ms = self.full.base_ms
        self.prompt: Prompt = self.full.prompt
        self.dense_server = Server(runtime, Dense(), {}, options.new_tokens + 1, fixed_length=True)
        texts = [REUSE, *(options.repairs if load.repairs else [])]
        self.contestants: dict[str, Contestant] = {DENSE: self._dense}
        if options.generate:
            self.contestants[GENERATE] = self._generate
        self.contestants |= {spec.text: self._reusing(spec.policy) for spec in map(parse, texts)}

    def _dense(self) -> Measured:
        outcome = self.dense_server.serve(Job(AGENT, (), self.prompt, "agent_1", feeds=False))
        return self._whole(outcome.ttft_ms, outcome.stages, outcome.generation.ids)

    def _generate(self) -> Measured:
        found = generate(self.runtime, self.prompt.ids, self.options.new_tokens)
        return self._whole(found.ttft_ms, {"first_token": found.ttft_ms, "decode": found.decode_ms}, found.ids)

    def _whole(self, ttft: float, stages: Mapping[str, float], ids: list[int]) -> Measured:
        tokens, after = len(self.prompt.ids), len(ids) - 1
        work = [
            arithmetic.model_pass(self.shape, "first_token", range(tokens)),
            arithmetic.single_rows(self.shape, "decode", tokens, after),
        ]
        return Measured(ttft, stages, ids[0], 0, after, work)

    def _reusing(self, policy: object) -> Contestant:
        assert isinstance(policy, KVComm)

        def serve() -> Measured:
            outcome, gates = self.full.serve(policy)
            stages = {**outcome.stages, "gate": outcome.stages.get("gate", 0.0) + gates}
            stages.pop("decode", None)  # one token is generated, so nothing was decoded
            ids, rows = outcome.generation.ids, len(outcome.start.rows)
            return Measured(outcome.ttft_ms + gates, stages, ids[0], rows, 0, self._reused_work(policy, outcome))

        return serve

    def _reused_work(self, policy: KVComm, outcome: Outcome) -> list[Work]:
        shape, anchors, last = self.shape, self.options.anchors, len(self.prompt.ids) - 1
        shared = sum(segment.length for segment in self.prompt.shared())
        after = sum(following.length for _, _, following in pairs(self.prompt))
        work = [arithmetic.gate(shape, shared, anchors), arithmetic.assembly(shape, shared, after, anchors)]
        if isinstance(policy, Repaired) and policy.select == "draft":
            work.append(arithmetic.single_rows(shape, "draft", last, policy.k))
            work.append(arithmetic.draft_scores(shape, last, policy.k))
        stage = "repair" if outcome.start.rows else "first_token"
        return [*work, arithmetic.model_pass(shape, stage, [*outcome.start.rows, last])]
