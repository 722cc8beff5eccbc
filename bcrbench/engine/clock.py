"""Device-synchronised time, kept apart by stage."""

from __future__ import annotations

from contextlib import contextmanager
from time import perf_counter
from typing import Iterator

import torch


class Clock:
    """Milliseconds per named stage since `reset`; a stage entered twice adds up."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._device = device
        self.reset()

    def reset(self) -> None:
        """Start a call: stages empty, time zero now."""
        self.stages: dict[str, float] = {}
        self._zero = self._now()

    def elapsed(self) -> float:
        """Milliseconds since the reset."""
        return (self._now() - self._zero) * 1e3

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the block's time to a stage."""
        begin = self._now()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + (self._now() - begin) * 1e3

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the block's time out of the call; not inside a stage."""
        begin = self._now()
        try:
            yield
        finally:
            self._zero += self._now() - begin

    def _now(self) -> float:
        if self._cuda:
            torch.cuda.synchronize(self._device)
        return perf_counter()
