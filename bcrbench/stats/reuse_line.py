"""Eq. 3: the line of accuracy against reuse rate through Dense and KVComm, and what a policy earns beyond it.

Accuracies and rates are fractions and stay unrounded, as in Table 7.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReuseLine:
    """accuracy = intercept - slope * reuse rate."""

    intercept: float
    slope: float

    def predicted(self, reuse: float) -> float:
        """Accuracy that the reuse rate alone accounts for."""
        return self.intercept - self.slope * reuse

    def residual(self, accuracy: float, reuse: float) -> float:
        """Accuracy beyond it: above 0 where the policy beats the line."""
        return accuracy - self.predicted(reuse)


def line_through(dense: float, kvcomm: float, kvcomm_reuse: float) -> ReuseLine:
    """The line through Dense, which reuses nothing, and KVComm. Raises ValueError when KVComm reuses nothing either."""
    if kvcomm_reuse <= 0:
        raise ValueError(f"KVComm's reuse rate is {kvcomm_reuse}, expected more than 0: two points at 0 have no line")
    return ReuseLine(dense, (dense - kvcomm) / kvcomm_reuse)
