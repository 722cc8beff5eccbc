"""Random allocation: reuse is given up at calls drawn by a coin (paper App. A.1 P5)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from random import Random
from typing import ClassVar

from bcrbench.reuse.policies.base import CallView, setting
from bcrbench.reuse.policies.kvcomm import KVComm
from bcrbench.reuse.policies.matched import named_run, wrong_run
from bcrbench.runs.matching import Finished, is_rate
from bcrbench.runs.schema import Served


@dataclass(frozen=True)
class GiveUp(KVComm):
    """Prefills a reusable call with probability p, from one stream that advances once per opportunity."""

    summary: ClassVar[str] = "a coin gives up reuse with probability p, or so that match=RATE is reached"
    source: ClassVar[str] = "section 4.2, App. A.1 P5"
    p: float = setting(0.5, 0.0, 1.0)
    match: str = setting("", told="a reuse rate, 0 to 1 | reuse:CONDITION")
    seed: int = setting(0, 0, 2**31)

    def check(self) -> str | None:
        """`match` is a reuse rate, or names a condition of this cell whose rate is to be reached."""
        wrong = wrong_run(self.match) if self.match and not is_rate(self.match) else None
        if wrong is not None:
            return f"match={self.match}: expected a reuse rate from 0 to 1, or reuse:CONDITION ({wrong})"
        return super().check()

    def resolve(self, finished: Finished) -> GiveUp:
        """With `match`, the p at which the KVComm run with the same gate and pool would have reached that rate."""
        if not self.match:
            return self
        named = named_run(self.match)
        rate = finished.of_condition(named).rate if named is not None else float(self.match)
        own = {spot.name: getattr(self, spot.name) for spot in fields(KVComm)}
        seen = finished.of_policy("KVComm", self.gamma, own)
        return replace(self, p=matching(rate, seen.reused, seen.calls, self.seed), match=str(rate))

    def decide(self, view: CallView) -> tuple[Served, str]:
        """KVComm's decision, given up by the coin."""
        if not view.new and draw(self.seed, view.opportunity) < self.p:
            return "dense", "coin"
        return super().decide(view)


def draw(seed: int, opportunity: int) -> float:
    """The coin's number in [0, 1) at an opportunity; a function of seed and count, so a replay draws the same."""
    return Random(f"bcrbench random {seed} {opportunity}").random()


def matching(rate: float, reusable: int, calls: int, seed: int) -> float:
    """The p at which a run with so many reusable calls reaches a reuse rate, found by bisection on its own coin.

    The rate reached falls in steps as p rises; the p returned gives the closest step. Source: App. A.1 P5.
    """
    draws = [draw(seed, i) for i in range(reusable)]
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if sum(number >= middle for number in draws) / calls > rate:
            low = middle
        else:
            high = middle
    return round(high, 6)
