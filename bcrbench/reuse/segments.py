"""A call's prompt as spans: what reuse needs to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence


@dataclass(frozen=True)
class Segment:
    """A contiguous span [start, end) of a call's prompt; `name` is the placeholder's, or fixed_0, fixed_1, ..."""

    name: str
    shared: bool
    start: int
    end: int

    @property
    def length(self) -> int:
        """Tokens in the span."""
        return self.end - self.start


@dataclass(frozen=True)
class Prompt:
    """A call's ids and how they divide into segments: fixed_0, shared, fixed_1, shared, fixed_2, ..."""

    ids: list[int]
    segments: list[Segment]

    def shared(self) -> list[Segment]:
        """The shared segments in order."""
        return [segment for segment in self.segments if segment.shared]

    def fixed(self) -> list[Segment]:
        """The fixed segments in order; fixed()[i + 1] follows shared()[i]."""
        return [segment for segment in self.segments if not segment.shared]


def join(fixed: Sequence[Sequence[int]], names: Sequence[str], shared: Sequence[Sequence[int]]) -> Prompt:
    """Concatenate fixed and shared pieces, fixed first and last, into a prompt."""
    ids = list(fixed[0])
    segments = [Segment("fixed_0", False, 0, len(ids))]
    for number, (name, content, after) in enumerate(zip(names, shared, fixed[1:], strict=True), start=1):
        segments.append(Segment(name, True, len(ids), len(ids) + len(content)))
        ids += content
        segments.append(Segment(f"fixed_{number}", False, len(ids), len(ids) + len(after)))
        ids += after
    return Prompt(ids, segments)
