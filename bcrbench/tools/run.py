"""What the tools that run programs share: shorter limits than a grading's, and how results are shown to an agent."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from bcrbench.errors import RunFailed
from bcrbench.grading.kit import Kit
from bcrbench.grading.verdict import HARNESS

if TYPE_CHECKING:
    from bcrbench.grading.sandbox import Evaluated, Sandbox

SECONDS = 5  # the release waits 5 s for a program, 1 to 10 s for a task's examples
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")


def quick(kit: Kit) -> Sandbox:
    """The kit's sandbox with a tool's limits."""
    from bcrbench.grading.sandbox import Limits

    return replace(kit.sandbox, limits=Limits(wall_s=SECONDS, cpu_s=SECONDS))


def check(tool: str, ran: Evaluated) -> None:
    """Raise RunFailed when the sandbox failed: agents must not be told that their program did."""
    if ran.outcome == HARNESS:
        raise RunFailed(f"tool {tool!r}: the sandbox failed ({ran.reason}); the same command goes on from here")


def shown(text: str, longest: int) -> str:
    """A value or an error as an agent sees it: cut where it is long, and without what differs from run to run."""
    text = _ADDRESS.sub("at 0x...", text.strip())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
