"""The one place where attention is computed: queries of a row set against the slot cache (App. B).

Every row at position p attends to the keys at positions 0..p, whatever the row set. A bottom-right aligned causal
mask would be wrong for scattered rows, so masks come from absolute positions. `Rows` prepares once per pass what all
layers share.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Callable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from bcrbench.registry import Registry

NAME = "sdpa"  # the attention of transformers' own forward, which the engine does not take (layers.py)
TILE = 128  # rows a tile: 1.15x work at 4096 rows and rho 0.2


@dataclass
class Rows:
    """The rows of one pass: ascending absolute positions, and the kernel that attends for them.

    `listed` are the positions as a list; `device` is where tensors go. When `queries` is a list, every layer's
    queries [heads, n, dim] are appended to it.
    """

    listed: list[int]
    device: Any
    kernel: Kernel
    queries: list[Tensor] | None = None
    work: dict[str, Any] = field(default_factory=dict)  # what a kernel prepares once for all layers

    def __post_init__(self) -> None:
        if not self.listed:
            raise ValueError("a pass needs at least one row")
        if self.listed[0] < 0:
            raise ValueError(f"row {self.listed[0]}: expected positions of 0 or more")
        if any(b <= a for a, b in zip(self.listed, self.listed[1:])):
            raise ValueError("rows must be given in ascending order, each once")

    def __len__(self) -> int:
        return len(self.listed)

    @cached_property
    def last(self) -> Rows:
        """The last row alone: what the last layer is run for."""
        return self if len(self) == 1 else Rows(self.listed[-1:], self.device, self.kernel)

    @property
    def start(self) -> int:
        """Position of the first row."""
        return self.listed[0]

    @property
    def end(self) -> int:
        """One past the position of the last row."""
        return self.listed[-1] + 1

    @property
    def contiguous(self) -> bool:
        """True when the rows are one span."""
        return self.end - self.start == len(self.listed)

    @property
    def whole(self) -> bool:
        """True when the rows are a prompt from its start on."""
        return self.start == 0 and self.contiguous

    @cached_property
    def positions(self) -> Tensor:
        """Positions [n], int64."""
        return torch.tensor(self.listed, dtype=torch.int64, device=self.device)

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Maximal runs of rows as index ranges [first, last) into the row set."""
        cuts = [i for i in range(1, len(self.listed)) if self.listed[i] != self.listed[i - 1] + 1]
        return list(zip([0, *cuts], [*cuts, len(self.listed)]))


Kernel = Callable[[Tensor, Tensor, Tensor, Rows, float], Tensor]


def masked(query: Tensor, key: Tensor, value: Tensor, rows: Rows, scale: float) -> Tensor:
    """The reference: one SDPA call with the explicit mask `key position <= query position`, any row set."""
    if "mask" not in rows.work:
        keys = torch.arange(rows.end, device=query.device)
        rows.work["mask"] = keys[None, :] <= rows.positions[:, None]
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    return scaled_dot_product_attention(query, key, value, attn_mask=rows.work["mask"], scale=scale)


def whole_prompt(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """The plain causal call for rows 0 to the last, so that Dense costs what the model's own attention costs."""
    return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale, enable_gqa=True)


def tiles(query: Tensor, key: Tensor, value: Tensor, rows: Rows, scale: float) -> Tensor:
    """Sorted row tiles, keys cut at each tile's last position, query heads folded into the row axis."""
    if rows.whole:
        return whole_prompt(query, key, value, scale)
    batch, heads, count, dim = query.shape
    kv_heads = key.shape[1]
    group = heads // kv_heads
    done = []
    for first, last, end, mask in _tile_masks(rows, group, query.device):
        tile = query[:, :, first:last].reshape(batch, kv_heads, group * (last - first), dim)
        out = scaled_dot_product_attention(tile, key[:, :, :end], value[:, :, :end], attn_mask=mask, scale=scale)
        done.append(out.view(batch, heads, last - first, dim))
    return done[0] if len(done) == 1 else torch.cat(done, dim=2)


def _tile_masks(rows: Rows, group: int, device: Any) -> list[tuple[int, int, int, Tensor | None]]:
    if "tiles" in rows.work:
        return rows.work["tiles"]
    made: list[tuple[int, int, int, Tensor | None]] = []
    for first in range(0, len(rows.listed), TILE):
        last = min(first + TILE, len(rows.listed))
        end = rows.listed[last - 1] + 1
        mask = None
        if last - first > 1:
            keys = torch.arange(end, device=device)
            mask = (keys[None, :] <= rows.positions[first:last, None]).repeat(group, 1)
        made.append((first, last, end, mask))
    rows.work["tiles"] = made
    return made


KERNELS: Registry[Kernel] = Registry(
    "kernel",
    {
        "sdpa": masked,
        "tiles": tiles,
        "blocks": "bcrbench.engine.blocks:blocks",
        "flex": "bcrbench.engine.gpu:flex",
        "flash": "bcrbench.engine.gpu:flash",
    },
)


@contextmanager
def pinned_backend() -> Iterator[str]:
    """Keep cuDNN's SDPA out (it rebuilds a plan for every new length); yields what is allowed."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    allowed = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    with sdpa_kernel(allowed):
        yield backend_name()


def backend_name() -> str:
    """The SDPA backends that a pass may use, as logged."""
    return "flash|efficient|math"
