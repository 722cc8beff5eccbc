"""What `bcrbench bench` measures; loads nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bcrbench.errors import UserError

LAYOUTS = ("chunk", "grow", "single")
SELECTS = ("coin", "draft")
GENERATE = "generate"  # what a log calls the same model under transformers' own generate
DENSE = "dense"
REUSE = "kvcomm:gamma=1.0"


@dataclass(frozen=True)
class BenchOptions:
    """What to measure. Raises UserError for a value that cannot be.

    `symbols` are lengths of the shared segment in tokens, `prefix` is the length of the agent's own text before it,
    `anchors` how many the pool holds. Each of `warm_up` + `repeat` rounds serves every condition once; dense and
    `generate` decode `new_tokens` after the first one. `short` adds a prompt of GSM8K's size. `throughput` adds
    whole requests: so many `agents` read a `document` of that many tokens and give an `answer` of as many. `assembly`
    adds gate and assembly alone, for segments of `rows` and so many anchors in `pools`, in rows of `layers` (as many as
    fit, where None).
    """

    symbols: tuple[int, ...] = (4096,)
    anchors: int = 20
    prefix: int = 512
    rho: tuple[float, ...] = (0.05, 0.2)
    layouts: tuple[str, ...] = LAYOUTS
    selects: tuple[str, ...] = SELECTS
    repeat: int = 5
    warm_up: int = 1
    new_tokens: int = 32
    short: bool = True
    generate: bool = True
    throughput: bool = True
    agents: int = 6
    document: int = 1024
    answer: int = 16
    assembly: bool = True
    rows: tuple[int, ...] = (512, 1024, 2048, 4096, 8192, 16384, 32768)
    pools: tuple[int, ...] = (2, 5, 10, 20)
    layers: int | None = None

    def __post_init__(self) -> None:
        for name, low, high in (("anchors", 2, 1000), ("prefix", 1, 2**20), ("repeat", 1, 1000), ("warm_up", 0, 100),
                                ("new_tokens", 1, 10_000), ("agents", 1, 100),
                                ("document", 1, 2**20), ("answer", 2, 10_000)):  # fmt: skip
            _between(name, getattr(self, name), low, high)
        for name in ("symbols", "rho", "layouts", "selects", "rows", "pools"):
            _distinct(name, getattr(self, name))
        for name, low, high in (("symbols", 1, 2**20), ("rows", 1, 2**20), ("pools", 2, 1000)):
            for value in getattr(self, name):
                _between(name, value, low, high)
        if self.layers is not None:
            _between("layers", self.layers, 2, 1000)
        for share in self.rho:
            _between("rho", share, 0.0001, 1)
        for name, known in (("layouts", LAYOUTS), ("selects", SELECTS)):
            for value in getattr(self, name):
                if value not in known:
                    raise UserError(f"{name}={value}: expected one of {', '.join(known)}")

    @property
    def condition(self) -> str:
        """The string by which the log and its file's name know the bench."""
        return f"bench:symbols={'_'.join(map(str, self.symbols))},anchors={self.anchors}"

    @property
    def repairs(self) -> list[str]:
        """Condition strings of the repairs, in the order in which they are shown."""
        return [
            f"bcr-{layout}:gamma=1.0,rho={rho},select={select}"
            for rho in sorted(self.rho)
            for layout in self.layouts
            for select in self.selects
        ]

    @property
    def served(self) -> list[str]:
        """Condition strings of the repairs that whole requests are served with: the first layout's, by the draft."""
        return [f"bcr-{self.layouts[0]}:gamma=1.0,rho={rho},select=draft" for rho in sorted(self.rho)]


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise UserError(f"{name}={value}: expected {low} to {high}")


def _distinct(name: str, values: Sequence[object]) -> None:
    if not values or len(set(values)) < len(values):
        raise UserError(f"{name}={','.join(map(str, values))}: expected one or more, each once")
