"""Verify: the controls that make a run believable (paper App. B "Correctness", App. G.2, G.3, App. I).

Each group of checks is a small file of its own. A new check is one function of a Bench that returns a Finding, and one
line here. Names are imported when they are asked for, so that listing them loads no model library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Sequence

from bcrbench.registry import Registry

if TYPE_CHECKING:
    from bcrbench.verify.bench import Bench
    from bcrbench.verify.finding import Finding

# In the order in which a wrong one explains the ones after it: engine, prompts, reuse, repair, answers.
_CHECKS: dict[str, Callable[[Bench], Finding] | str] = {
    "rotation": "bcrbench.verify.engine:rotation",
    "mask": "bcrbench.verify.engine:mask",
    "greedy": "bcrbench.verify.decoding:greedy",
    "tokens": "bcrbench.verify.tokens:tokens",
    "repeat": "bcrbench.verify.reuse:repeat",
    "gate": "bcrbench.verify.reuse:gate",
    "theta-zero": "bcrbench.verify.reuse:theta_zero",
    "no-repair": "bcrbench.verify.repair:no_repair",
    "draft": "bcrbench.verify.repair:draft",
    "engaged": "bcrbench.verify.repair:engaged",
    "full-repair": "bcrbench.verify.repair:full_repair",
    "placebo": "bcrbench.verify.decoding:placebo",
}
CHECKS: Registry[Callable[[Bench], Finding]] = Registry("check", _CHECKS, group="bcrbench.checks")


def wanted(only: Sequence[str]) -> list[str]:
    """The checks to make, in their order: all unless some are named. Raises UserError with the nearest match."""
    for name in only:
        CHECKS.get(name)
    outside = [name for name in CHECKS.names() if name not in _CHECKS]
    return [name for name in [*_CHECKS, *outside] if not only or name in only]
