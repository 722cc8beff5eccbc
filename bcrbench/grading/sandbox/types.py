"""What a caller of the sandbox gives and gets."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from bcrbench.errors import UserError, told

Level = Literal["bubblewrap", "namespaces", "process"]
LEVELS: tuple[Level, ...] = ("bubblewrap", "namespaces", "process")  # the strongest first
Outcome = Literal["correct", "wrong", "error:timeout", "error:memory", "error:harness"]
Ran = Literal["ran", "failed", "error:timeout", "error:memory", "error:harness"]
_LARGEST = 2**20


@dataclass(frozen=True)
class Limits:
    """What one program may use. Raises UserError for a limit that is no number above 0."""

    wall_s: float = 10.0  # from the moment the program may start
    cpu_s: int = 10  # of each process
    memory_mb: int = 1024  # address space of each process
    processes: int = 16  # with their threads
    file_mb: int = 16  # one file; in a namespace the whole working folder
    open_files: int = 64
    output_kb: int = 64  # of printed text that is kept; the rest is read and dropped

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            number = type(value) is int or (field.name == "wall_s" and type(value) is float)
            if not number or not 0 < value <= _LARGEST:
                raise UserError(
                    f"sandbox limit {field.name}: {told(value)} is not a number above 0 and up to {_LARGEST}"
                )


@dataclass(frozen=True)
class Judged:
    """One judgement."""

    outcome: Outcome
    reason: str  # "" when correct
    seconds: float  # wall time from the moment the program could start
    output: str  # what the program printed, cut at the limit


@dataclass(frozen=True)
class Value:
    """One expression's value as Python writes it, or why there is none."""

    ok: bool
    text: str
    error: str
    equal: bool = False  # `compare` only: the value equals the expected one


@dataclass(frozen=True)
class Evaluated:
    """Values of expressions, by the program's own word: feedback for a model, never a grade."""

    outcome: Ran
    reason: str
    values: tuple[Value, ...]  # one for each expression, in order
    seconds: float
    output: str
