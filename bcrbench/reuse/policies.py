"""How calls are served: the policies (paper section 4.2, App. A.1). One class and one registry line each.

A policy says, before a call is served, whether it is prefilled or assembled. It never touches a cache.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Callable, ClassVar, Literal

from bcrbench.registry import Registry
from bcrbench.reuse.anchors import CAPACITY, WINDOW
from bcrbench.runs.schema import Served

Frame = Literal["released", "canonical"]
Base = Literal["header", "empty"]


@dataclass(frozen=True)
class CallView:
    """What a policy may look at: the agent, its place, and which of its segments the gate called new."""

    agent: str
    hears: tuple[str, ...]
    new: list[str]


@dataclass(frozen=True)
class Policy:
    """Base of all policies. A pooled policy keeps an anchor pool, so its runs are stateful."""

    pooled: ClassVar[bool] = False
    tokens: Literal["whole", "merged"] = "merged"

    def decide(self, view: CallView) -> tuple[Served, str]:
        """How to serve the call, and why in a word."""
        raise NotImplementedError

    def effective(self) -> dict[str, Any]:
        """The parameters as the running object holds them; a log keeps these, not what was typed."""
        return {"policy": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class Dense(Policy):
    """Every call is a full prefill: of the whole text's tokens, or of the merged ids (token-matched Dense)."""

    tokens: Literal["whole", "merged"] = "whole"

    def decide(self, view: CallView) -> tuple[Served, str]:
        """Always dense."""
        return "dense", "policy"


@dataclass(frozen=True)
class KVComm(Policy):
    """The released baseline: one segment that the gate calls new makes the whole call a prefill (decision 1).

    `frame` and `base` are decisions 2 and 3; the defaults are the released behaviour.
    """

    pooled: ClassVar[bool] = True
    gamma: float = 0.3
    frame: Frame = "released"
    base: Base = "header"
    capacity: int = CAPACITY
    window: int = WINDOW

    def decide(self, view: CallView) -> tuple[Served, str]:
        """Dense when any segment is new to this consumer, else reuse (kvcomm.md 2.5)."""
        if view.new:
            return "dense", "new:" + ",".join(view.new)
        return "reuse", "gate"


POLICIES: Registry[Callable[..., Policy]] = Registry("policy", {"dense": Dense, "kvcomm": KVComm})
