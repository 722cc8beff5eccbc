"""A served model's layers, run one by one: what its own forward computes, less what no pass wants.

A pass wants the logits of its last row, and keys and values of all its rows. In the last layer therefore only that
row asks, attends and passes the MLP (3 % of a pass's products at 135M). The weights and the modules stay transformers'
own: this is the one place that knows how its Llama-like layers are put together.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import silu

from bcrbench.engine.attention import Rows
from bcrbench.engine.cache import SlotCache

_SILU = ("SiLU", "SiLUActivation")  # torch's class, and the one of transformers' own since 5


def lay_out(model: Any) -> None:
    """Store wide weights by columns: one row's product with them then reads a float32 weight twice as fast on a CPU.

    Measured at 576 x 49,152 with MKL: 13 and 25 GB/s; products of many rows are as fast either way. Weights keep their
    names, shapes and numbers. Tall ones and square ones stay as they are, which is the faster way for them.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.out_features > module.in_features:
            module.weight.data = module.weight.data.t().contiguous().t()


class Layers:
    """The modules of a causal model of one of the served types."""

    def __init__(self, model: Any) -> None:
        self._body = model.model
        self._blocks = list(model.model.layers)
        self._head = model.lm_head

    def logits(self, ids: Tensor, rows: Rows, cache: SlotCache) -> Tensor:
        """Run tokens `ids` [n] as `rows` against the cache; the logits [vocab] of the last one, in the model's type."""
        hidden, turn = self._begin(ids, rows)
        for layer, block in enumerate(self._blocks[:-1]):
            hidden = _block(block, layer, hidden, turn, rows, rows, cache)
        hidden = _block(self._blocks[-1], len(self._blocks) - 1, hidden, turn, rows, rows.last, cache)
        return self._head(self._body.norm(hidden))[0]

    def fill(self, ids: Tensor, rows: Rows, cache: SlotCache) -> None:
        """Keys and values of the rows in as many first layers as the cache has, and nothing after them."""
        hidden, turn = self._begin(ids, rows)
        filled = self._blocks[: cache.layers]
        for layer, block in enumerate(filled[:-1]):
            hidden = _block(block, layer, hidden, turn, rows, rows, cache)
        _write(filled[-1], cache.layers - 1, filled[-1].input_layernorm(hidden), turn, rows, cache)

    def _begin(self, ids: Tensor, rows: Rows) -> tuple[Tensor, _Turn]:
        hidden = self._body.embed_tokens(ids)
        cos, sin = self._body.rotary_emb(hidden[None], rows.positions[None])
        return hidden, (cos[0, :, None], sin[0, :, None])


_Turn = tuple[Tensor, Tensor]  # cosines and sines [n, 1, head_dim] of the rows' positions


def _block(block: Any, layer: int, hidden: Tensor, turn: _Turn, rows: Rows, wanted: Rows, cache: SlotCache) -> Tensor:
    """One layer over hidden states [n, width]: the states after it of `wanted`, which are all rows or the last one."""
    attention = block.self_attn
    normed = block.input_layernorm(hidden)
    keys, values = _write(block, layer, normed, turn, rows, cache)
    asking = rows if rows.queries is not None else wanted  # what is recorded is recorded for all rows
    query = _heads(attention, "q", normed[-len(asking) :])
    query = _turned(query, *(part[-len(asking) :] for part in turn)).transpose(0, 1)
    if rows.queries is not None:
        rows.queries.append(query)
    out = rows.kernel(query[None, :, -len(wanted) :], keys, values, wanted, attention.scaling)
    hidden = hidden[-len(wanted) :] + attention.o_proj(out[0].transpose(0, 1).reshape(len(wanted), -1))
    return hidden.add_(_mlp(block.mlp, block.post_attention_layernorm(hidden)))


def _mlp(mlp: Any, normed: Tensor) -> Tensor:
    """The MLP, its activation and product written over the gate: at 900 rows, new memory for each costs an eighth."""
    gate = mlp.gate_proj(normed)
    gate = silu(gate, inplace=True) if type(mlp.act_fn).__name__ in _SILU else mlp.act_fn(gate)
    return mlp.down_proj(gate.mul_(mlp.up_proj(normed)))


def _write(block: Any, layer: int, normed: Tensor, turn: _Turn, rows: Rows, cache: SlotCache) -> tuple[Tensor, Tensor]:
    """Put the rows' keys and values into their slots; what is filled of the layer then."""
    keys = _turned(_heads(block.self_attn, "k", normed), *turn)
    return cache.put(layer, keys, _heads(block.self_attn, "v", normed), rows)


def _heads(attention: Any, part: str, normed: Tensor) -> Tensor:
    """Queries, keys or values [n, heads, head_dim], before they are rotated; Qwen3 norms each head's q and k."""
    heads = getattr(attention, f"{part}_proj")(normed).view(len(normed), -1, attention.head_dim)
    norm = getattr(attention, f"{part}_norm", None)
    return heads if norm is None else norm(heads)


def _turned(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate [n, heads, head_dim] by the rotary embedding; the same products and sums as transformers' own."""
    half = heads.shape[-1] // 2
    out = heads * cos
    out[..., :half] -= heads[..., half:] * sin[..., :half]
    out[..., half:] += heads[..., :half] * sin[..., half:]
    return out
