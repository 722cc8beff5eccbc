"""Who hears whom: topologies of one to five workers and a deciding node (paper section 3, "the reuse problem")."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Callable

from bcrbench.errors import UserError
from bcrbench.registry import Registry

MAX_WORKERS = 5
DECISION = "0"  # the deciding node's id, as in the released baseline


@dataclass(frozen=True)
class Agent:
    """A node of the graph: its id ("1".."N", or "0" for the deciding node), role, and whom it hears, in order."""

    id: str
    role: str
    hears: tuple[str, ...]

    @property
    def decides(self) -> bool:
        """True for the deciding node."""
        return self.id == DECISION


def _full(i: int, n: int) -> list[int]:
    return list(range(1, i))


def _chain(i: int, n: int) -> list[int]:
    return [i - 1] if i > 1 else []


def _star(i: int, n: int) -> list[int]:
    return [1] if i > 1 else []


def _layered(i: int, n: int) -> list[int]:
    width = ceil(sqrt(n))
    first = (i - 1) // width * width + 1
    return list(range(max(1, first - width), first)) if first > 1 else []


TOPOLOGIES: Registry[Callable[[int, int], list[int]]] = Registry(
    "topology", {"full": _full, "chain": _chain, "star": _star, "layered": _layered}
)


def assign_roles(spec: str, roles: list[str], workers: int) -> list[str]:
    """Roles of the workers: `cycle` through the task's list, or `pin:NAME` for every worker.

    Raises UserError for an unknown role or form. The cycle starts anew in every graph, never runs on through a process.
    """
    if spec == "cycle":
        return [roles[i % len(roles)] for i in range(workers)]
    form, _, name = spec.partition(":")
    if form != "pin":
        raise UserError(f"--roles {spec!r}: expected 'cycle' or 'pin:ROLE'")
    if name not in roles:
        from bcrbench.errors import unknown

        raise unknown("role", name, roles)
    return [name] * workers


def build_graph(topology: str, workers: int, roles: list[str], decision_role: str | None) -> list[Agent]:
    """The agents in the order in which they run: workers "1".."N", then the deciding node, which hears all.

    Without a `decision_role` nobody decides, and the last worker's response is the answer.

    full: worker i hears 1..i-1. chain: worker i hears i-1. star: everyone hears worker 1, the hub.
    layered: layers of ceil(sqrt(N)) workers, each hears the whole layer before. `roles` has one entry a worker.
    Raises UserError for a topology or a count that is not known.
    """
    if not 1 <= workers <= MAX_WORKERS:
        raise UserError(f"--agents {workers}: expected 1 to {MAX_WORKERS} workers")
    hears = TOPOLOGIES.get(topology)
    agents = [Agent(str(i), roles[i - 1], tuple(map(str, hears(i, workers)))) for i in range(1, workers + 1)]
    if decision_role is None:
        return agents
    everyone = tuple(str(i) for i in range(1, workers + 1))
    return [*agents, Agent(DECISION, decision_role, everyone)]
