"""Claims of the paper, decided by logs: the registry, one line a kind.

A kind is its parameters (a strict structure) and a function that takes the logs' cells, those parameters, and the
claim in words, and returns a verdict.
"""

from __future__ import annotations

from bcrbench.registry import Registry
from bcrbench.stats.claims.kind import Kind

_HERE = "bcrbench.stats.claims"

KINDS: Registry[Kind] = Registry(
    "kind of claim",
    {
        "below": f"{_HERE}.below:KIND",
        "above": f"{_HERE}.above:KIND",
        "level": f"{_HERE}.level:KIND",
        "order": f"{_HERE}.order:KIND",
        "faster": f"{_HERE}.faster:KIND",
        "line": f"{_HERE}.line:KIND",
        "rows": f"{_HERE}.rows:KIND",
    },
)
