"""Requests a second: agents that read one long document and answer briefly, with all that a request costs.

The paper times prefills; a user waits for requests. Here every agent of a request reads the same document and the
answer of the agent before it, and answers with a few tokens. A pooled request is charged its document's base rows,
gates, assembly, repairs, decoding and the base rows of answers. The pool is full and nothing is new, so no anchor is
stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from random import Random

import torch

from bcrbench.bench.contestants import Contestant, Measured
from bcrbench.bench.options import DENSE, REUSE, BenchOptions
from bcrbench.bench.pool import SCALE, store_again
from bcrbench.conditions import parse
from bcrbench.engine.clock import Clock
from bcrbench.engine.model import Runtime
from bcrbench.errors import RunFailed, UserError
from bcrbench.reuse.anchors import WINDOW
from bcrbench.reuse.policies import Dense
from bcrbench.reuse.policies.kvcomm import KVComm
from bcrbench.reuse.segments import Prompt, join
from bcrbench.reuse.serve import Job, Outcome, Server

NAME = "throughput"
OWN, BETWEEN = 64, 16  # tokens of an agent's own text before the document, and of its template behind each segment


def prompt_tokens(options: BenchOptions) -> int:
    """Tokens of the longest prompt: document, the answer before, and what stands around them."""
    return OWN + options.document + BETWEEN + options.answer + BETWEEN


def check_positions(options: BenchOptions, positions: int | None, model: str) -> None:
    """Raise UserError for a prompt that, with its answer, the model has no positions for."""
    needed = prompt_tokens(options) + options.answer
    if options.throughput and positions is not None and needed > positions:
        raise UserError(
            f"document={options.document}: prompts and answers of {needed} tokens, expected at most {positions}, the "
            f"positions of model {model!r}; --no-throughput leaves them out"
        )


class Office:
    """All ways of serving requests, by name in the order in which they are shown; each serves one whole request.

    A request's document is drawn by its number, which counts rounds, so all ways serve the same ones.
    """

    base_ms = 0.0  # base rows are charged to each request

    @torch.inference_mode()
    def __init__(self, runtime: Runtime, options: BenchOptions) -> None:
        self.runtime, self.options = runtime, options
        self.vocabulary: int = runtime.model.config.vocab_size
        self.dense = Server(runtime, Dense(), {}, options.answer, fixed_length=True)
        capacity = options.anchors
        full = KVComm(gamma=1.0, capacity=capacity, window=min(WINDOW, capacity))
        self.pooled = Server(runtime, full, {}, options.answer, fixed_length=True)
        self._fill()
        policies = {spec.text: spec.policy for spec in map(parse, [REUSE, *options.served])}
        self.contestants: dict[str, Contestant] = {DENSE: self._contestant(self.dense, self.dense.policy)}
        self.contestants |= {name: self._contestant(self.pooled, policy) for name, policy in policies.items()}

    def _fill(self) -> None:
        """One dense request stores the first anchors; stored again, slightly scaled, they fill the pool."""
        assert self.pooled.shared is not None
        for number in range(1, self.options.agents + 1):
            self.pooled.prepare(str(number), self._prompt(number, [0], [0]))
        for outcome in self._request(self.pooled, "anchor-0", seed=-1):
            assert outcome.served == "dense", "an empty pool has nothing to reuse"
        for bucket in self.pooled.shared.pool.buckets.values():
            for number in range(1, self.options.anchors):
                store_again(bucket, f"anchor-{number}", 1.0 + SCALE * number)

    def _contestant(self, server: Server, policy: object) -> Contestant:
        requests = count()

        def serve() -> Measured:
            if server.shared is not None:
                assert isinstance(policy, KVComm)
                server.policy = server.shared.policy = policy
            number = next(requests)
            clock = Clock(self.runtime.device)
            outcomes = list(self._request(server, f"request-{number}", seed=number))
            return self._measured(server, outcomes, clock.elapsed())

        return serve

    def _measured(self, server: Server, outcomes: list[Outcome], took: float) -> Measured:
        stages: Counter[str] = Counter()
        for outcome in outcomes:
            if server.shared is not None and outcome.served != "reuse":
                raise RunFailed(f"a call was served {outcome.served} ({outcome.why}), expected reuse")
            stages.update(outcome.stages)
        return Measured(
            ttft_ms=sum(outcome.ttft_ms for outcome in outcomes),
            stages=stages,
            first_token=outcomes[0].generation.ids[0],
            rows=sum(len(outcome.start.rows) for outcome in outcomes),
            new_tokens=sum(len(outcome.generation.ids) for outcome in outcomes),
            work=[],
            prompt_tokens=sum(len(outcome.ids) for outcome in outcomes),
            calls=len(outcomes),
            served_ms=took,
        )

    def _request(self, server: Server, key: str, seed: int) -> Iterator[Outcome]:
        """Serve every agent in turn; each hears the document and the answer before."""
        drawn = Random(f"bench document {seed}")
        document = [drawn.randrange(self.vocabulary) for _ in range(self.options.document)]
        answer = self._nothing()
        server.begin(key)
        for number in range(1, self.options.agents + 1):
            feeds = number < self.options.agents
            prompt = self._prompt(number, document, answer)
            outcome = server.serve(Job(str(number), (), prompt, f"agent_{number}", feeds))
            answer = outcome.generation.ids[:-1]  # the last token never enters a cache
            yield outcome

    def _prompt(self, number: int, document: list[int], answer: list[int]) -> Prompt:
        own = Random(f"bench agent {number}")
        first = number == 1
        fixed = [[own.randrange(self.vocabulary) for _ in range(length)] for length in (OWN, BETWEEN, BETWEEN)]
        names = ["question"] if first else ["question", f"agent_{number - 1}"]
        return join(fixed[: len(names) + 1], names, [document] if first else [document, answer])

    def _nothing(self) -> list[int]:
        return [0] * (self.options.answer - 1)
