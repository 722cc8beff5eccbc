"""A dense serving beside every reused call, so that times pair up within one process (Table 10, App. C)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.clock import Clock
from bcrbench.engine.decode import greedy, most_likely
from bcrbench.engine.model import Runtime
from bcrbench.reuse.policies import Policy
from bcrbench.runs.schema import Stages, Twin

NO_STOPS: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Timing:
    """How a run's times are taken: whether reused calls get a twin, and how many of them are warm-ups."""

    twins: bool = False
    warm_up: int = 0


class Twins:
    """Serves the ids of reused calls once more by a full prefill, in turns before and after the reused serving.

    Each agent has turns of its own, and neighbours begin with different ones: a single count over an even number of
    calls a request would give every agent the same order for ever, and its prompt's length would pass for the order's.
    Works in a cache that holds nothing between calls and with a clock of its own: of a twin, only its times remain.
    """

    def __init__(self, runtime: Runtime, policy: Policy, cache: SlotCache) -> None:
        self.runtime = runtime
        self.policy = policy
        self.cache = cache
        self.clock = Clock(runtime.device)
        self.turns: Counter[str] = Counter()
        self._begun: list[int] = []

    def before(self, agent: str, ids: list[int], limit: int, known: bool) -> None:
        """Serve the twin if this is its turn to go first; its tokens, too, where their number is `known`."""
        self._begun = []
        if (self.turns[agent] + int(agent)) % 2:
            self._prefill(ids, limit)
            if known:
                self._decode(ids, limit)

    def after(self, agent: str, ids: list[int], count: int) -> Twin:
        """Serve what is left of the twin, to `count` tokens; its times."""
        first = bool(self._begun)
        if not first:
            self._prefill(ids, count)
        if len(self._begun) < count:
            self._decode(ids, count)
        self.replayed(agent)
        stages = {name: round(ms, 4) for name, ms in self.clock.stages.items()}
        whole = self._ttft + self.clock.stages.get("decode", 0.0)
        return Twin(
            ttft_ms=round(self._ttft, 4),
            e2e_ms=round(whole, 4),
            tokens=len(self._begun),
            first=first,
            ms=Stages(**stages),
        )

    def replayed(self, agent: str) -> None:
        """A call of the agent took its turn, now or in the log."""
        self.turns[agent] += 1

    def _prefill(self, ids: list[int], limit: int) -> None:
        self.clock.reset()
        with self.clock.stage("first_token"):
            self.cache.length = 0
            self.cache.reserve(len(ids) + limit)
            self._begun = [most_likely(self.policy.prefill(self.runtime, ids, self.cache))]
        self._ttft = self.clock.elapsed()

    def _decode(self, ids: list[int], count: int) -> None:
        with self.clock.stage("decode"):
            self._begun = greedy(self.runtime, self.cache, self._begun, len(ids), count, NO_STOPS).ids
