"""What a policy is: how each call of a run is served (paper section 4.2, App. A.1).

A policy is a frozen dataclass whose `setting` fields are the parameters that a condition string may set. A new one is
one file and one registry line.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

from torch import Tensor

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.decode import most_likely
from bcrbench.engine.model import Runtime
from bcrbench.repair.view import RepairView, Start
from bcrbench.runs.matching import Finished
from bcrbench.runs.schema import Served


def setting(
    default: Any, low: float | None = None, high: float | None = None, shown: bool = False, told: str = "text"
) -> Any:
    """A parameter that people may set: its default, its bounds, and whether canonical strings always show it.

    `told` says in words what a text may be.
    """
    return field(default=default, metadata={"setting": True, "low": low, "high": high, "shown": shown, "told": told})


@dataclass(frozen=True)
class CallView:
    """What a policy may look at before a call is served.

    `new` are the call's segments that the gate called new; `opportunity` counts the run's calls so far that the gate
    would have reused, this one left out.
    """

    agent: str
    hears: tuple[str, ...]
    new: list[str]
    opportunity: int = 0


@dataclass(frozen=True)
class Policy:
    """Base of all policies. A pooled policy keeps an anchor pool, so its runs are stateful."""

    summary: ClassVar[str] = ""
    source: ClassVar[str] = ""
    pooled: ClassVar[bool] = False
    tokens: Literal["whole", "merged"] = "merged"
    prompts: Literal["matched", "released-modes"] = "matched"

    def decide(self, view: CallView) -> tuple[Served, str]:
        """How to serve the call, and why in a word."""
        raise NotImplementedError

    def prefill(self, runtime: Runtime, ids: list[int], cache: SlotCache) -> Tensor:
        """Prefill a whole prompt into an empty cache; returns the last token's logits [vocab]."""
        return runtime.run(ids, range(len(ids)), cache)

    def start(self, view: RepairView) -> Start:
        """Start generating on an assembled cache: the prompt's last token runs, and nothing else."""
        with view.stage("first_token"):
            logits = view.runtime.run(view.ids[-1:], [view.rows], view.cache)
            return Start([most_likely(logits)])

    def resolve(self, finished: Finished) -> Policy:
        """The policy with what it is matched to read from finished runs; itself when it matches nothing."""
        return self

    def check(self) -> str | None:
        """What is wrong with the parameters taken together, or None."""
        return None

    def effective(self) -> dict[str, Any]:
        """The parameters as the running object holds them; a log keeps these, not what was typed."""
        return {"policy": type(self).__name__, **asdict(self)}
