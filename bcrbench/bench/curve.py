"""What gate and assembly of one reused call cost, by the segment's rows and the pool's anchors.

No model runs: rows are random ones of the model's shape, stored through the pool's own code, and what is timed is what
a call does (reuse/shared.py). Twenty anchors of 32,768 rows take 60 GB of a 135M model in float32, so rows have fewer
layers where memory is short, the same in every point; points that still do not fit are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bcrbench.bench import arithmetic
from bcrbench.bench.arithmetic import Shape
from bcrbench.bench.contestants import Measured
from bcrbench.bench.options import BenchOptions
from bcrbench.bench.pool import AGENT, SCALE
from bcrbench.bench.workload import TAIL
from bcrbench.engine.clock import Clock
from bcrbench.engine.model import Runtime
from bcrbench.reuse.anchors import WINDOW, Anchor
from bcrbench.reuse.block import Block
from bcrbench.reuse.policies.kvcomm import KVComm
from bcrbench.reuse.segments import join
from bcrbench.reuse.shared import SharedSegments

NAME = "question"
OWN = 16  # tokens of the agent's own text before the segment
FEWEST = 2  # layers: the first one is never corrected
PART = 0.5  # of the free memory, for the pool and all beside it
SPARE = 8  # parts of a segment's size beside the pool's: base rows, the call's cache, one more anchor on its way


@dataclass(frozen=True)
class Room:
    """Bytes that a point may take, and those of one row in one layer."""

    bytes: float
    row: int

    @classmethod
    def of(cls, runtime: Runtime, free: int) -> Room:
        """The room that so much free memory leaves."""
        shape = Shape.of(runtime.model.config, runtime.dtype.itemsize)
        return cls(PART * free, shape.row // shape.layers)

    def fits(self, rows: int, anchors: int, layers: int) -> bool:
        """Whether so many anchors, base and deviation each, and all beside them stay within it."""
        return (2 * anchors + SPARE) * (rows + TAIL) * self.row * layers <= self.bytes

    def layers(self, rows: int, anchors: int, most: int) -> int:
        """The most layers with which they fit, but no fewer than assembly has work in."""
        return next((count for count in range(most, FEWEST, -1) if self.fits(rows, anchors, count)), min(FEWEST, most))


def with_layers(options: BenchOptions, runtime: Runtime, room: Room) -> BenchOptions:
    """The options with the layers that the curve's rows have: as asked, else as many as there is room for.

    Never more than the model's; none without a curve.
    """
    if not options.assembly:
        return replace(options, layers=None)
    fitting = room.layers(max(options.rows), max(options.pools), runtime.layers)
    return replace(options, layers=min(options.layers or fitting, runtime.layers))


class Curve:
    """One segment's length; its anchors are stored once, and each point shows the pool the first few."""

    @torch.inference_mode()
    def __init__(self, runtime: Runtime, rows: int, most: int, layers: int) -> None:
        shallow = copy(runtime)
        shallow.layers = layers
        self.runtime, self.rows = shallow, rows
        self.shape = replace(Shape.of(runtime.model.config, runtime.dtype.itemsize), layers=layers)
        self.clock = Clock(runtime.device)
        policy = KVComm(gamma=1.0, capacity=most, window=min(WINDOW, most))
        self.shared = SharedSegments(shallow, policy, {}, self.clock)
        self.prompt = join([[0] * OWN, [0] * TAIL], [NAME], [[0] * rows])
        self.cache = shallow.new_cache(len(self.prompt.ids))
        self._random = torch.Generator(runtime.device).manual_seed(0)
        self.base = self._block(rows)
        self.shared.fixed[AGENT] = [self._block(OWN), self._block(TAIL)]
        self._stored: list[Anchor] = []

    @torch.inference_mode()
    def hold(self, anchors: int) -> None:
        """Have so many anchors in the pool: those that were never stored are, those beyond are put aside."""
        bucket = self.shared.pool.bucket(NAME)
        bucket.anchors = self._stored
        for number in range(len(self._stored), anchors):
            parts = (_scaled(part, 1 + SCALE * number) for part in (self.base, self.base, self.shared.fixed[AGENT][1]))
            self.shared.pool.store(NAME, f"anchor-{number}", AGENT, *parts)
        bucket.anchors = self._stored[:anchors]

    @torch.inference_mode()
    def measure(self) -> Measured:
        """Gate and assemble one call."""
        self.shared.begin("measured")
        self.shared.bases[NAME] = self.base
        self.clock.reset()
        self.shared.gate(NAME)
        with self.clock.stage("assemble"):
            self.shared.assemble(AGENT, self.prompt, self.cache)
        took = self.clock.elapsed()
        anchors = len(self.shared.pool.bucket(NAME).anchors)
        work = [
            arithmetic.gate(self.shape, self.rows, anchors),
            arithmetic.assembly(self.shape, self.rows, TAIL - 1, anchors),
        ]
        return Measured(took, dict(self.clock.stages), first_token=-1, rows=0, new_tokens=0, work=work)

    def _block(self, rows: int) -> Block:
        return Block(self._numbers(rows), self._numbers(rows), 0)

    def _numbers(self, rows: int) -> Tensor:
        size = (rows, self.runtime.layers, self.runtime.kv_heads, self.runtime.head_dim)
        return torch.randn(size, generator=self._random, device=self.runtime.device).to(self.runtime.dtype)


def _scaled(block: Block, by: float) -> Block:
    return Block(block.keys * by, block.values * by, block.origin)


def points(options: BenchOptions, room: Room, rows: int) -> Iterator[tuple[int, bool]]:
    """Anchors of a length's points, ascending, and whether there is room for them."""
    for anchors in sorted(options.pools):
        yield anchors, room.fits(rows, anchors, options.layers or FEWEST)
