"""KVComm as released: gate, anchors, whole-call fallback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from bcrbench.reuse.anchors import CAPACITY, WINDOW
from bcrbench.reuse.policies.base import CallView, Policy, setting
from bcrbench.runs.schema import Served


@dataclass(frozen=True)
class KVComm(Policy):
    """The released baseline: one segment that the gate calls new makes the whole call a prefill.

    `frame` and `base` name deviations, `warm` other items that fill the pool before the first one, `pool_gb` the most
    that its anchors may hold in 1e9 bytes (0: no limit), `pool` where they lie (docs/kvcomm.md); the defaults are the
    released behaviour.
    """

    summary: ClassVar[str] = "KVComm as released: gate, anchors, whole-call fallback"
    source: ClassVar[str] = "section 3, Eq. 1-2"
    pooled: ClassVar[bool] = True
    gamma: float = setting(0.3, 0.0, 1.0, shown=True)
    frame: Literal["released", "canonical"] = setting("released")
    base: Literal["header", "empty"] = setting("header")
    capacity: int = setting(CAPACITY, 2, 10_000)
    window: int = setting(WINDOW, 1, 10_000)
    warm: int = setting(0, 0, 10_000)
    pool_gb: float = setting(0.0, 0.0, 1e6)
    pool: Literal["device", "host"] = setting("device")

    @property
    def pool_bytes(self) -> int | None:
        """The pool's budget in bytes, if there is one."""
        return int(self.pool_gb * 1e9) or None

    def decide(self, view: CallView) -> tuple[Served, str]:
        """Dense when any segment is new to this consumer, else reuse."""
        if view.new:
            return "dense", "new:" + ",".join(view.new)
        return "reuse", "gate"

    def check(self) -> str | None:
        """A wider window could evict an anchor before all its consumers have added to it."""
        if self.window > self.capacity:
            return f"window={self.window}: expected at most capacity={self.capacity}"
        return None
