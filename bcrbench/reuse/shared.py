"""The shared segments of a run: base rows, gate, prediction, and what the anchor pool learns."""

from __future__ import annotations

from statistics import fmean
from typing import Mapping, Sequence

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.clock import Clock
from bcrbench.engine.model import Runtime
from bcrbench.reuse.anchors import Pool
from bcrbench.reuse.arithmetic import Gaps, pick
from bcrbench.reuse.assemble import Prediction, Weights, turn, value_gaps, weigh
from bcrbench.reuse.block import Block, read
from bcrbench.reuse.gate import decide
from bcrbench.reuse.policies.kvcomm import KVComm
from bcrbench.reuse.segments import Prompt, Segment
from bcrbench.runs.schema import Gate


class SharedSegments:
    """The pool, each agent's fixed segments, and the current request's base rows, gate flags and weights.

    `headers` maps a shared segment to the ids it is prefilled behind when it is met (base=header).
    """

    def __init__(self, runtime: Runtime, policy: KVComm, headers: Mapping[str, Sequence[int]], clock: Clock) -> None:
        self.runtime = runtime
        self.policy = policy
        self.headers = headers
        self.clock = clock
        self.arithmetic = pick(runtime.device, runtime.dtype)
        self.pool = Pool(policy.capacity, policy.window, policy.pool_bytes, host=policy.pool == "host")
        self.fixed: dict[str, list[Block]] = {}
        self.begin("")

    def begin(self, key: str) -> None:
        """Start a request: forget the previous one's segments, flags and weights."""
        self.key = key
        self.bases: dict[str, Block] = {}
        self.new: dict[str, bool] = {}
        self._gaps: dict[str, Gaps] = {}
        self._weights: dict[str, Weights | None] = {}

    def prepare(self, agent: str, hollow: Prompt, cache: SlotCache) -> None:
        """Prefill an agent's template into its cache and keep its fixed segments' base rows.

        With base=header the stand-ins are in the shared places, as released; with base=empty every fixed segment
        after the first is prefilled alone.
        """
        self.runtime.run(hollow.ids, range(len(hollow.ids)), cache)
        segments = hollow.fixed()
        blocks = [read(cache, segment.start, segment.end) for segment in segments]
        if self._empty:
            blocks[1:] = [self._alone(hollow.ids[segment.start : segment.end]) for segment in segments[1:]]
        self.fixed[agent] = blocks

    def meet(self, prompt: Prompt) -> list[Gate]:
        """Base rows and gate for the shared segments that this request has not met yet (the question)."""
        gates = []
        for segment in prompt.shared():
            if segment.name in self.bases:
                continue
            with self.clock.stage("base"):
                content = prompt.ids[segment.start : segment.end]
                header = [] if self._empty else self.headers.get(segment.name, [])
                self.bases[segment.name] = self._alone(content, header)
            gates.append(self.gate(segment.name))
        return gates

    def gate(self, name: str) -> Gate:
        """Decide whether a segment may be predicted, once per request."""
        with self.clock.stage("gate"):
            tokens, bucket = self.bases[name].tokens, self.pool.bucket(name)
            gate = decide(name, tokens, bucket, self.policy.gamma, lambda: self._value_gaps(name))
        self.new[name] = gate.decision == "new"
        return gate

    def new_in(self, prompt: Prompt) -> list[str]:
        """The prompt's segments that the gate called new."""
        return [segment.name for segment in prompt.shared() if self.new[segment.name]]

    def fill(self, prompt: Prompt) -> float:
        """How full the pool is for a prompt: anchors over capacity, at most 1, mean over its shared segments.

        0 for a prompt without any.
        """
        counts = [len(self.pool.bucket(segment.name).anchors) for segment in prompt.shared()]
        return fmean(min(1.0, count / self.policy.capacity) for count in counts) if counts else 0.0

    def assemble(self, agent: str, prompt: Prompt, cache: SlotCache) -> None:
        """Write every segment after fixed_0 as predicted rows; the last one without the prompt's last token."""
        served = len(prompt.ids) - 1
        cache.length = min(prompt.segments[0].end, served)
        for number, segment, after in pairs(prompt):
            weights = self._weigh(segment)
            block = self.bases[segment.name]
            following = self.fixed[agent][number].head(min(after.end, served) - after.start)
            shared = Prediction(block, self._frame(segment.start), agent, "segment", weights)
            fixed = Prediction(following, self._frame(after.start), agent, "after", weights)
            shared.write(cache, segment.start, self.runtime.inv_freq, self.arithmetic)
            fixed.write(cache, after.start, self.runtime.inv_freq, self.arithmetic)

    def learn(self, agent: str, prompt: Prompt, cache: SlotCache) -> None:
        """Store the deviations that a dense call shows for its new segments (paper Eq. 1)."""
        for number, segment, after in pairs(prompt):
            if not self.new[segment.name]:
                continue
            base, delta = self._deviation(self.bases[segment.name], cache, segment)
            _, delta_after = self._deviation(self.fixed[agent][number], cache, after)
            self.pool.store(segment.name, self.key, agent, base, delta, delta_after)

    def respond(self, name: str, content: list[int], start: int, cache: SlotCache) -> Gate:
        """Base rows of a response and its gate: one teacher-forced pass in its producer's cache.

        Runs and replays make the same pass, so that both give the same rows to the last bit.
        """
        with self.clock.stage("response"):
            if self._empty:
                self.bases[name] = self._alone(content)
            else:
                if content:
                    self.runtime.run(content, range(start, start + len(content)), cache)
                self.bases[name] = read(cache, start, start + len(content))
        return self.gate(name)

    @property
    def _empty(self) -> bool:
        return self.policy.base == "empty"

    def _frame(self, start: int) -> int:
        """Where keys stand while they are compared and corrected: at the call's position, or at 0."""
        return 0 if self.policy.frame == "canonical" else start

    def _alone(self, content: Sequence[int], header: Sequence[int] = ()) -> Block:
        """Rows of a text prefilled alone, or behind the header whose rows are dropped."""
        ids = [*header, *content]
        cache = self.runtime.new_cache(len(ids))
        if ids:
            self.runtime.run(ids, range(len(ids)), cache)
        return read(cache, len(header), len(ids))

    def _value_gaps(self, name: str) -> Gaps:
        """What the gate compares, kept for the weights of the same request."""
        self._gaps[name] = value_gaps(self.bases[name].values, self.pool.bucket(name), self.arithmetic)
        return self._gaps[name]

    def _weigh(self, segment: Segment) -> Weights | None:
        """A segment's weights: the first consumer's serve the request's later ones too, as released."""
        name = segment.name
        if name not in self._weights:
            block, bucket = self.bases[name], self.pool.bucket(name)
            there = turn(block.origin, self._frame(segment.start), self.runtime.inv_freq)
            self._weights[name] = weigh(block, there, bucket, self.arithmetic, self._gaps.get(name))
        return self._weights[name]

    def _deviation(self, base: Block, cache: SlotCache, segment: Segment) -> tuple[Block, Block]:
        """The base rows in the frame, and how far the exact rows are from them."""
        frame = self._frame(segment.start)
        placed = base.moved(frame, self.runtime.inv_freq)
        real = read(cache, segment.start, segment.end).moved(frame, self.runtime.inv_freq)
        return placed, Block(real.keys - placed.keys, real.values - placed.values, frame)


def pairs(prompt: Prompt) -> list[tuple[int, Segment, Segment]]:
    """Each shared segment with its number from 1 and the fixed segment that follows it."""
    segments = prompt.segments
    return [
        (number, segment, after)
        for number, (segment, after) in enumerate(zip(segments[1::2], segments[2::2], strict=True), start=1)
    ]
