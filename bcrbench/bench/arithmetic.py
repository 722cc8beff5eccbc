"""What a call costs by the model's configuration: FLOPs and bytes of each stage, in closed form (docs/bench.md).

Counted is what any implementation has to do: products of the linear layers, both products of attention over the keys
that a row may see, each weight read once a pass, keys and values read and written. Norms, rotations, softmax and
activations that stay in caches are left out, so every bound is a lower one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bcrbench.runs.schema import Work


@dataclass(frozen=True)
class Shape:
    """A model's sizes; `size` is bytes a number."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocabulary: int
    size: int

    @classmethod
    def of(cls, config: Any, size: int) -> Shape:
        """The sizes that a Llama-like configuration names."""
        heads = config.num_attention_heads
        return cls(
            layers=config.num_hidden_layers,
            width=config.hidden_size,
            heads=heads,
            kv_heads=config.num_key_value_heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            mlp=config.intermediate_size,
            vocabulary=config.vocab_size,
            size=size,
        )

    @property
    def linear(self) -> int:
        """Weights of all layers' projections and MLPs, P: every row meets each of them once."""
        attention = 2 * self.width * self.head_dim * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.width * self.mlp)

    @property
    def last(self) -> int:
        """Weights of the last layer that only a pass's last row meets: all of it but keys and values."""
        return self.linear // self.layers - 2 * self.width * self.head_dim * self.kv_heads

    @property
    def head(self) -> int:
        """Weights of the output projection, which one row of a pass meets."""
        return self.width * self.vocabulary

    @property
    def pair(self) -> int:
        """FLOPs of attention for one query position and one key position: two products, in every head of a layer."""
        return 4 * self.heads * self.head_dim

    @property
    def row(self) -> int:
        """Bytes of one row: keys and values of all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.size


def model_pass(shape: Shape, stage: str, rows: Sequence[int]) -> Work:
    """One pass over rows at ascending positions, each attending to all positions up to its own.

    In the last layer all rows owe keys and values, and the last row alone the rest: nobody reads the others' outputs.
    """
    count, end, pairs = len(rows), rows[-1] + 1, sum(rows) + len(rows)
    flops = 2 * (shape.linear * count - shape.last * (count - 1) + shape.head)
    flops += shape.pair * ((shape.layers - 1) * pairs + end)
    moved = (shape.linear + shape.head + count * shape.width) * shape.size + shape.row * (end + count)
    return Work(stage=stage, flops=float(flops), bytes=float(moved))


def single_rows(shape: Shape, stage: str, start: int, count: int) -> Work:
    """`count` passes of one row each, from position `start` on: a draft, or decoding."""
    steps = [model_pass(shape, stage, [start + step]) for step in range(count)]
    return Work(stage=stage, flops=sum(step.flops for step in steps), bytes=sum(step.bytes for step in steps))


def gate(shape: Shape, shared: int, anchors: int) -> Work:
    """Distances of the shared rows' values to those of every anchor: all are read once."""
    return Work(stage="gate", flops=3.0 * anchors * shared * _numbers(shape) / 2,
                bytes=(anchors + 1) * shared * shape.row / 2)  # fmt: skip


def assembly(shape: Shape, shared: int, after: int, anchors: int) -> Work:
    """Weights and blend of shared rows, and of the fixed rows after them, whose weights are the shared ones'.

    Distances of values are the gate's, so those of keys alone are owed; each anchor's deviation is read once, in all
    layers but the first; rows are read and written once.
    """
    corrected = (shape.layers - 1) / shape.layers
    moved = shared * shape.row * (anchors / 2 + anchors * corrected + 2)
    moved += after * shape.row * (anchors * corrected + 2)
    flops = anchors * _numbers(shape) * (1.5 * shared + 2 * corrected * (shared + after))
    return Work(stage="assemble", flops=flops, bytes=moved)


def draft_scores(shape: Shape, rows: int, k: int) -> Work:
    """Scores of M rows from k recorded queries: one product with the keys of all layers but the first."""
    layers = shape.layers - 1
    return Work(stage="select", flops=2.0 * layers * shape.heads * shape.head_dim * k * rows,
                bytes=float(rows * layers * shape.kv_heads * shape.head_dim * shape.size))  # fmt: skip


def _numbers(shape: Shape) -> int:
    """Numbers in a row."""
    return shape.row // shape.size
