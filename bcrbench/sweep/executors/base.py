"""What every executor takes and gives. Where runs are carried out is no part of what a run is: no log holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from bcrbench.sweep.plan import Plan

Say = Callable[[str], None]


@dataclass(frozen=True)
class Where:
    """The executor's name and, for one that uses many workers, the cluster to join, GPUs a run, and runs at once."""

    executor: str = "local"
    address: str | None = None
    num_gpus: float | None = None
    workers: int | None = None


@dataclass(frozen=True)
class Ended:
    """How a run ended: its log, or why it failed."""

    plan: Plan
    log: Path | None = None
    why: str = ""


class Executor(Protocol):
    """Carries out runs and tells how each ended, as they end.

    A run that fails or is refused is one of those; UserError ends the sweep, Cancelled says that a person stopped it.
    Whatever the end, each log holds every item that was finished, and the same sweep goes on from there.
    """

    def __call__(self, plans: list[Plan], where: Where, say: Say) -> Iterator[Ended]:
        """Carry out the plans, each after those that it is matched to."""
