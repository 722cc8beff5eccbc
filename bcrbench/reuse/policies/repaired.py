"""KVComm with a repair: BCR's three layouts, and CacheBlend as a selector (paper section 3, App. A.2, B, D)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from bcrbench.engine.decode import most_likely
from bcrbench.errors import UserError
from bcrbench.repair import LAYOUTS, OPERATORS
from bcrbench.repair.layouts import Layout, Selection
from bcrbench.repair.selectors import SELECTORS
from bcrbench.repair.selectors.base import Selector
from bcrbench.repair.view import RepairView, Start
from bcrbench.reuse.policies.base import setting
from bcrbench.reuse.policies.kvcomm import KVComm
from bcrbench.reuse.policies.matched import named_run, wrong_run
from bcrbench.runs.matching import Finished, is_rate


@dataclass(frozen=True)
class Repaired(KVComm):
    """A reused call whose cache is repaired before generation: selector, layout, budget, operator.

    `k` is the draft's length, `seed` the coin's, `m` the query selector's rows; a selector takes what it knows.
    `shrink` is the part of the budget that a full anchor pool takes away.
    """

    layout: ClassVar[str] = "single"
    rho: float = setting(0.2, 0.0, 1.0)
    shrink: float = setting(0.0, 0.0, 1.0)
    select: str = setting("draft", told=" | ".join(SELECTORS.names()))
    op: Literal["recompute", "transplant"] = setting("recompute")
    over: Literal["all", "predicted"] = setting("all")
    seed: int = setting(0, 0, 2**31)
    k: int = setting(2, 1, 8)
    m: int = setting(16, 1, 4096)
    variant: Literal["paper", "released", "lmcache-v1"] = setting("paper")

    def check(self) -> str | None:
        """The selector must be known."""
        try:
            SELECTORS.check(self.select)
        except UserError as error:
            return str(error)
        return super().check()

    def start(self, view: RepairView) -> Start:
        """Choose rows, make them fresh, and take the first token from the mended cache in the same pass."""
        view.draft_tokens, view.seed = self.k, self.seed
        chosen = self._choose(view)
        with view.stage("repair" if chosen.rows else "first_token"):
            logits = OPERATORS.get(self.op)(view, chosen.rows)
            first = most_likely(logits)
        return Start(
            [first],
            rows=chosen.rows,
            transplanted=self.op == "transplant",
            draft_ids=view.draft.ids if "draft" in view.__dict__ else None,
            skipped=chosen.skipped,
            touched=chosen.rows[0] if chosen.rows else view.rows,
        )

    def make_selector(self) -> Selector:
        """The selector with the parameters that it knows."""
        return _with_own(SELECTORS.get(self.select), self)

    def make_layout(self) -> Layout:
        """The layout with the parameters that it knows."""
        return _with_own(LAYOUTS.get(self.layout), self)

    def budget(self) -> float:
        """The share of rows to spend, before the pool has anything."""
        return self.rho

    def share(self, fill: float) -> float:
        """The share of rows to spend at a call whose pool is full to `fill`, 0 to 1: never more than the budget."""
        return self.budget() * (1.0 - self.shrink * fill)

    def _choose(self, view: RepairView) -> Selection:
        selector = self.make_selector()
        if self.select == "draft":
            _ = view.draft  # a stage of its own, not part of selection
        with view.stage("select"):
            return self.make_layout().rows(view, selector, self.share(view.fill))


def _with_own(kind: Any, policy: Repaired) -> Any:
    return kind(**{spot.name: getattr(policy, spot.name) for spot in fields(kind) if hasattr(policy, spot.name)})


@dataclass(frozen=True)
class BcrChunk(Repaired):
    """BCR on a fixed grid of B-row chunks."""

    summary: ClassVar[str] = "BCR: the best chunks of a fixed grid, by the draft's attention"
    source: ClassVar[str] = "section 3, Alg. 1-2"
    layout: ClassVar[str] = "chunk"
    B: int = setting(64, 1, 4096)


@dataclass(frozen=True)
class BcrGrow(Repaired):
    """BCR with spans grown from the best rows."""

    summary: ClassVar[str] = "BCR: spans grown around the best rows"
    source: ClassVar[str] = "section 3, Table 12"
    layout: ClassVar[str] = "grow"
    tau: float = setting(0.25, 0.0, 1.0)
    cap: int = setting(64, 1, 4096)


@dataclass(frozen=True)
class BcrSingle(Repaired):
    """BCR one row at a time."""

    summary: ClassVar[str] = "BCR: the best single rows"
    source: ClassVar[str] = "section 3, Table 12"


@dataclass(frozen=True)
class CacheBlend(Repaired):
    """CacheBlend's selector on single rows: cost-matched spends BCR's rho, reuse-matched spends 1 - r (App. D)."""

    summary: ClassVar[str] = "CacheBlend's layer-1 deviation on single rows; match=cost or match=reuse:..."
    source: ClassVar[str] = "section 4.3, App. D, H"
    select: str = setting("cacheblend", told=" | ".join(SELECTORS.names()))
    match: str = setting("cost", shown=True, told="cost | reuse:RATE | reuse:LOG | reuse:CONDITION")

    def check(self) -> str | None:
        """`match` is cost, or reuse: with a rate from 0 to 1, a log to read it from, or a condition of this cell."""
        form, _, rate = self.match.partition(":")
        if self.match != "cost" and (form != "reuse" or not (is_rate(rate) or Path(rate).is_file())):
            wrong = wrong_run(self.match)
            if wrong is not None:
                return (
                    f"match={self.match}: expected cost, reuse:RATE with a rate from 0 to 1, reuse:LOG with a file, or "
                    f"reuse:CONDITION with + for its commas ({wrong})"
                )
        if self.match != "cost" and self.shrink:
            return f"shrink={self.shrink}: expected 0 with match={self.match}, which is to spend what that run did"
        return super().check()

    def resolve(self, finished: Finished) -> CacheBlend:
        """The reuse rate of a log, or of this cell's run of a condition, in the place of its name."""
        form, _, rate = self.match.partition(":")
        if form != "reuse" or is_rate(rate):
            return self
        named = named_run(self.match)
        found = finished.of_condition(named) if named is not None else finished.of_log(Path(rate))
        return replace(self, match=f"reuse:{found.rate}")

    def budget(self) -> float:
        """rho, or the share that the matched condition did not reuse (App. D, "Setting the budget")."""
        return self.rho if self.match == "cost" else 1.0 - float(self.match.partition(":")[2])
