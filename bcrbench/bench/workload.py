"""Prompts to serve: how long their parts are, and random tokens to fill them (paper Table 10, App. C).

Times depend on lengths and not on which tokens there are, so none has a meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from bcrbench.bench.options import BenchOptions
from bcrbench.errors import UserError
from bcrbench.reuse.segments import Prompt, join

TAIL = 16  # tokens of the template behind the last shared segment


@dataclass(frozen=True)
class Workload:
    """Lengths of a prompt's parts: fixed, shared, fixed, shared, ..., fixed; `repairs` tells whether it is repaired."""

    name: str
    fixed: tuple[int, ...]
    shared: tuple[int, ...]
    repairs: bool = True

    @property
    def tokens(self) -> int:
        """Tokens of the prompt."""
        return sum(self.fixed) + sum(self.shared)

    def prompt(self, vocabulary: int, seed: int) -> Prompt:
        """A prompt of random ids: fixed parts are always the same, shared ones are drawn by the seed."""
        drawn = Random(f"bench shared {seed}")
        return self._join(vocabulary, [[drawn.randrange(vocabulary) for _ in range(length)] for length in self.shared])

    def hollow(self, vocabulary: int) -> Prompt:
        """The same with one token in the place of each shared part, as a template is prepared."""
        return self._join(vocabulary, [[0] for _ in self.shared])

    def _join(self, vocabulary: int, shared: list[list[int]]) -> Prompt:
        own = Random("bench fixed")
        names = ["question", *(f"agent_{number}" for number in range(1, len(self.shared)))]
        fixed = [[own.randrange(vocabulary) for _ in range(length)] for length in self.fixed]
        return join(fixed, names, shared)


# An agent of GSM8K's graph that hears three others: the paper's prompts have about a thousand tokens.
SHORT = Workload("short", (200, 16, 16, 16, 32), (90, 190, 190, 190), repairs=False)
# The first agent of that graph, which hears the question alone.
QUESTION = Workload("question", (400, 32), (90,), repairs=False)


def workloads(options: BenchOptions) -> Iterator[Workload]:
    """One prompt a segment length, of Table 10's first agent: its own text and the segment; then the short ones."""
    for length in options.symbols:
        yield Workload(f"symbols={length}", (options.prefix, TAIL), (length,))
    if options.short:
        yield SHORT
        yield QUESTION


def check_room(options: BenchOptions, positions: int | None, model: str) -> None:
    """Raise UserError for a prompt that, with its generation, the model has no positions for."""
    for load in workloads(options):
        if positions is not None and load.tokens + options.new_tokens > positions:
            raise UserError(
                f"{load.name}: a prompt of {load.tokens} tokens and {options.new_tokens} more, expected at most "
                f"{positions}, the positions of model {model!r}"
            )
