"""A consumer whose pool is full, served by the run's own code (reuse/serve.py) as often as one likes.

The pool is filled in bounded time: its first anchor by one dense call through the server, the others by storing that
anchor's rows again, slightly scaled, through the pool's own `store`. How long a call takes does not depend on the
numbers in the rows.
"""

from __future__ import annotations

import torch

from bcrbench.bench.workload import Workload
from bcrbench.engine.model import Runtime
from bcrbench.errors import RunFailed
from bcrbench.reuse.anchors import WINDOW, Bucket
from bcrbench.reuse.block import Block
from bcrbench.reuse.policies.kvcomm import KVComm
from bcrbench.reuse.serve import Job, Outcome, Server

AGENT = "1"
SCALE = 1e-3  # each further anchor differs by this much from the one before


class FullPool:
    """Serves one prompt from a pool of so many anchors, under any pooled policy.

    The prompt's segments count as met earlier in the request, as those are that another agent wrote: their base rows
    are there. `base_ms` is what they took. The gate is charged to every call.
    """

    @torch.inference_mode()
    def __init__(self, runtime: Runtime, load: Workload, anchors: int) -> None:
        vocabulary = runtime.model.config.vocab_size
        policy = KVComm(gamma=1.0, capacity=anchors, window=min(WINDOW, anchors))
        self.prompt = load.prompt(vocabulary, seed=0)
        self.server = Server(runtime, policy, {}, 1, fixed_length=True)
        assert self.server.shared is not None
        self.shared = self.server.shared
        self.server.prepare(AGENT, load.hollow(vocabulary))
        self._serve(load, vocabulary)
        for bucket in self.shared.pool.buckets.values():
            for number in range(1, anchors):
                store_again(bucket, f"anchor-{number}", 1.0 + SCALE * number)
        self.server.begin("measured")
        self.server.clock.reset()
        self.shared.meet(self.prompt)
        self.base_ms = self.server.clock.stages["base"]
        self._bases = dict(self.shared.bases)

    def _serve(self, load: Workload, vocabulary: int) -> None:
        self.server.begin("anchor-0")
        outcome = self.server.serve(Job(AGENT, (), load.prompt(vocabulary, seed=1), "agent_1", feeds=False))
        assert outcome.served == "dense", "an empty pool has nothing to reuse"

    def serve(self, policy: KVComm) -> tuple[Outcome, float]:
        """Serve the prompt once; what happened, and the milliseconds that its gates took before."""
        self.server.policy = self.shared.policy = policy
        self.server.begin("measured")
        self.shared.bases.update(self._bases)
        self.server.clock.reset()
        for segment in self.prompt.shared():
            self.shared.gate(segment.name)
        gates = self.server.clock.stages["gate"]
        outcome = self.server.serve(Job(AGENT, (), self.prompt, "agent_1", feeds=False))
        if outcome.served != "reuse":
            raise RunFailed(f"the call was served {outcome.served} ({outcome.why}), expected reuse")
        return outcome, gates


def store_again(bucket: Bucket, key: str, scale: float) -> None:
    """Store a bucket's first anchor once more under another key, with all its consumers and every number scaled."""
    anchor = bucket.anchors[0]
    for consumer, kept in anchor.deviations.items():
        blocks = [Block(part.keys * scale, part.values * scale, 0) for part in (anchor.base, kept.segment, kept.after)]
        bucket.store(key, consumer, *blocks)
