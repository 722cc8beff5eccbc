"""What a check found: one line with a number, so that a green run shows what it was green about."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Finding:
    """A check's result.

    `number` is in `unit` (None when the check broke down), `expected` is what passes, `source` the paper's section.
    `differs` marks a difference that is worth reading and no failure; `more` are lines that belong below.
    """

    name: str
    passed: bool
    number: float | None
    unit: str
    expected: str
    detail: str
    source: str
    differs: bool = False
    more: tuple[str, ...] = ()

    @property
    def state(self) -> Literal["pass", "differs", "FAIL"]:
        """The word that a table shows."""
        if not self.passed:
            return "FAIL"
        return "differs" if self.differs else "pass"

    def lines(self) -> list[str]:
        """The finding as text: one line, and the indented ones that belong to it."""
        shown = "-" if self.number is None else f"{self.number:.4g}"
        head = f"{self.state:<8}{self.name:<12} {shown} {self.unit} (expected {self.expected}): {self.detail}"
        source = f" [{self.source}]" if self.source else ""
        return [f"{head}{source}", *(f"{'':<21}{line}" for line in self.more)]

    def facts(self) -> dict[str, Any]:
        """The finding as JSON holds it; a number that JSON has no word for becomes null."""
        number = self.number
        finite = number is not None and abs(number) < float("inf")
        return {**asdict(self), "state": self.state, "number": number if finite else None, "more": list(self.more)}


def count(number: int, thing: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
