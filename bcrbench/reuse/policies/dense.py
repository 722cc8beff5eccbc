"""Dense: every call is a full prefill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from bcrbench.reuse.policies.base import CallView, Policy, setting
from bcrbench.runs.schema import Served


@dataclass(frozen=True)
class Dense(Policy):
    """A prefill of the whole text's tokens, or of the reuse path's merged ids (token-matched Dense, section 4.3)."""

    summary: ClassVar[str] = "every call is a full prefill; tokens=merged keeps the reuse path's ids"
    source: ClassVar[str] = "section 4.1, 4.3"
    tokens: Literal["whole", "merged"] = setting("whole")
    prompts: Literal["matched", "released-modes"] = setting("matched")

    def check(self) -> str | None:
        """The release's own wording of its default mode exists as a whole text only."""
        both = self.prompts == "released-modes" and self.tokens == "merged"
        return "prompts=released-modes has no merged tokens, expected tokens=whole" if both else None

    def decide(self, view: CallView) -> tuple[Served, str]:
        """Always dense."""
        return "dense", "policy"
