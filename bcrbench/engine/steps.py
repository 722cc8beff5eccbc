"""Running one row after another: decoding and drafts. The token stays on the device from step to step.

A step's position is known beforehand, so that nothing waits for the device. On CUDA a step is one graph: launching its
some thousand kernels one by one takes longer than running them. A graph's tensors stand still, so its keys are a bucket
of slots, of which those after the row's position are masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from bcrbench.engine.attention import Rows, pinned_backend
from bcrbench.engine.cache import SlotCache

if TYPE_CHECKING:
    from bcrbench.engine.model import Runtime

BUCKET = 1024  # slots: a graph serves all positions up to the next multiple
EAGER, GRAPH = "eager", "cuda graph"


@dataclass(frozen=True)
class Stepping:
    """How steps are run, and why not by graphs on CUDA where they are not."""

    name: str = EAGER
    why: str | None = None


class Stepper(Protocol):
    """Runs a token [1] at a position; the logits [vocab], float32, good until the next step.

    `queries` [layers, heads, head_dim], where given, receives the row's queries.
    """

    def __call__(self, token: Tensor, position: int, queries: Tensor | None = None) -> Tensor:
        """Run one row."""
        ...


def stepper(runtime: Runtime, cache: SlotCache) -> Stepper:
    """Steps on a cache, as the runtime takes them."""
    return _by_graph(runtime, cache) if runtime.stepping.name == GRAPH else _eager(runtime, cache)


def _eager(runtime: Runtime, cache: SlotCache) -> Stepper:
    def step(token: Tensor, position: int, queries: Tensor | None = None) -> Tensor:
        recorded: list[Tensor] | None = None if queries is None else []
        logits = runtime.step(token, position, cache, recorded)
        if queries is not None and recorded is not None:
            queries.copy_(torch.stack(recorded)[:, :, 0])
        return logits

    return step


def _by_graph(runtime: Runtime, cache: SlotCache) -> Stepper:
    def step(token: Tensor, position: int, queries: Tensor | None = None) -> Tensor:
        cache.reserve(position + 1)
        bucket = min(-(-(position + 1) // BUCKET) * BUCKET, cache.capacity)
        if bucket not in cache.graphs:
            cache.graphs[bucket] = Graph(StaticStep(runtime, cache, bucket))
        logits = cache.graphs[bucket](token, position)
        cache.length = max(cache.length, position + 1)
        if queries is not None:
            queries.copy_(cache.graphs[bucket].step.queries)
        return logits

    return step


class _MovingRow(Rows):
    """One row whose position is a tensor [1]; it sees a bucket of slots up to that position."""

    def __init__(self, place: Tensor, bucket: int, queries: list[Tensor]) -> None:
        super().__init__([bucket - 1], place.device, _up_to_position, queries)
        self.place = place

    @property
    def contiguous(self) -> bool:
        """False: its slot is found by the tensor."""
        return False

    @property
    def positions(self) -> Tensor:  # type: ignore[override]
        """The place [1]."""
        return self.place


def _up_to_position(query: Tensor, key: Tensor, value: Tensor, rows: Rows, scale: float) -> Tensor:
    """Attention of one row [1, heads, 1, dim] to the slots up to its position."""
    if "seen" not in rows.work:
        rows.work["seen"] = torch.arange(key.shape[2], device=key.device)[None] <= rows.positions
    folded = query.reshape(1, key.shape[1], -1, query.shape[3])
    return scaled_dot_product_attention(folded, key, value, attn_mask=rows.work["seen"], scale=scale).view(query.shape)


class StaticStep:
    """A step whose inputs and outputs are tensors that stay where they are: `token`, `place`, `logits`, `queries`."""

    def __init__(self, runtime: Runtime, cache: SlotCache, bucket: int) -> None:
        config, device = runtime.model.config, runtime.device
        self.runtime, self.cache, self.bucket = runtime, cache, bucket
        self.token = torch.zeros(1, dtype=torch.int64, device=device)
        self.place = torch.zeros(1, dtype=torch.int64, device=device)
        self.logits = torch.zeros(config.vocab_size, dtype=torch.float32, device=device)
        self.queries = runtime.new_queries(1)[:, :, 0]

    def set(self, token: Tensor, position: int) -> None:
        """Say what runs next, without waiting for the device."""
        self.token.copy_(token)
        self.place.fill_(position)

    @torch.inference_mode()
    def run(self) -> None:
        """Run the token at the place; its slots, `logits` and `queries` are written."""
        recorded: list[Tensor] = []
        row = _MovingRow(self.place, self.bucket, recorded)
        with pinned_backend():
            self.logits.copy_(self.runtime.decoder.logits(self.token, row, self.cache))
        self.queries.copy_(torch.stack(recorded)[:, :, 0])


class Graph:
    """A static step that is captured once and then replayed (CUDA)."""

    def __init__(self, step: StaticStep) -> None:
        self.step = step
        slot = step.bucket - 1  # capturing runs the step; its slot is put back
        keys, values = (part[:, :, :, slot].clone() for part in (step.cache.keys, step.cache.values))
        step.place.fill_(slot)
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(2):
                step.run()
        torch.cuda.current_stream().wait_stream(beside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            step.run()
        with torch.inference_mode():
            step.cache.keys[:, :, :, slot] = keys
            step.cache.values[:, :, :, slot] = values

    def __call__(self, token: Tensor, position: int) -> Tensor:
        """The logits of a token at a position, where the next call will put its own."""
        self.step.set(token, position)
        self._graph.replay()
        return self.step.logits


def pick_stepping(runtime: Runtime) -> Stepping:
    """Graphs on CUDA where one can be captured, else eager steps, with the reason."""
    if runtime.device.type != "cuda":
        return Stepping()
    try:
        Graph(StaticStep(runtime, runtime.new_cache(64), 64))
    except Exception as error:  # drivers, allocators and kernels raise types of their own
        return Stepping(EAGER, f"no graph: {' '.join(f'{type(error).__name__}: {error}'.split())[:200]}")
    return Stepping(GRAPH)
