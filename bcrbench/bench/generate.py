"""The same model under `transformers` generate: what the engine's dense serving is held against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from bcrbench.engine.clock import Clock
from bcrbench.engine.model import Runtime
from bcrbench.errors import RunFailed


@dataclass
class _Watch:
    """A streamer: notes when each token came; generate shows it the prompt first."""

    clock: Clock
    times: list[float] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)

    def put(self, value: Any) -> None:
        """Take the prompt, then one token at a time."""
        self.times.append(self.clock.elapsed())
        self.ids.append(int(value.reshape(-1)[-1]))

    def end(self) -> None:
        """Nothing is left over."""


@dataclass(frozen=True)
class Generated:
    """Milliseconds to the first token and for those after it, and all generated ids."""

    ttft_ms: float
    decode_ms: float
    ids: list[int]


@torch.inference_mode()
def generate(runtime: Runtime, ids: Sequence[int], new_tokens: int) -> Generated:
    """Generate one token and `new_tokens` more, greedily and whatever token comes, with the model's own attention."""
    prompt = torch.tensor([list(ids)], device=runtime.device)
    with _without_end(runtime.model):
        watch = _Watch(Clock(runtime.device))
        runtime.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=new_tokens + 1,
            do_sample=False,
            pad_token_id=0,
            streamer=watch,
        )
    _, first, *_ = watch.times
    if len(watch.ids) != new_tokens + 2:
        raise RunFailed(f"generate gave {len(watch.ids) - 1} tokens, expected {new_tokens + 1}")
    return Generated(first, watch.times[-1] - first, watch.ids[1:])


@contextmanager
def _without_end(model: Any) -> Iterator[None]:
    """The model with no token that ends a generation; its own forward is transformers', which the engine leaves be."""
    ends = model.generation_config.eos_token_id
    model.generation_config.eos_token_id = None
    try:
        yield
    finally:
        model.generation_config.eos_token_id = ends
