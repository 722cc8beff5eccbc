"""Several tests of one question: p adjusted within a family that is declared before it is read (App. H.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bcrbench.stats.paired import ALPHA


@dataclass(frozen=True)
class Family:
    """A named set of tests and their unadjusted p, by label. Raises ValueError for an empty one or no p in [0, 1]."""

    name: str
    ps: Mapping[str, float]

    def __post_init__(self) -> None:
        if not self.ps:
            raise ValueError(f"family {self.name!r}: no test, expected at least one")
        wrong = [label for label, p in self.ps.items() if not 0 <= p <= 1]
        if wrong:
            raise ValueError(f"family {self.name!r}: p of {wrong[0]!r} is {self.ps[wrong[0]]!r}, expected 0 to 1")
        object.__setattr__(self, "ps", MappingProxyType(dict(self.ps)))

    def holm(self) -> dict[str, float]:
        """p by label, adjusted by Holm's step-down rule."""
        return self._adjusted("holm")

    def bonferroni(self) -> dict[str, float]:
        """p by label, times the number of tests and at most 1."""
        return self._adjusted("bonferroni")

    def nominal_errors(self, alpha: float = ALPHA) -> float:
        """How many tests err at `alpha` on average if no effect exists and each attains its nominal size."""
        return len(self.ps) * alpha

    def _adjusted(self, method: str) -> dict[str, float]:
        from statsmodels.stats.multitest import multipletests

        # The default is Holm-Sidak, which assumes independence that repeated items do not have.
        adjusted = multipletests(list(self.ps.values()), method=method)[1]
        return {label: float(p) for label, p in zip(self.ps, adjusted, strict=True)}
