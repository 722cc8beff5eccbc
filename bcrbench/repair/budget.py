"""How much a repair may spend: rho of the served cache's M rows, as rows or as chunks (paper App. B, Alg. 1 line 1).

Rounding is Python's `round`, half to even. The paper writes `round` and its harness is Python; no figure of it lies
on a tie. Half to even also has no drift: a rho whose product often ends in .5 is neither over- nor underspent.
"""

from __future__ import annotations

from dataclasses import dataclass

from bcrbench.errors import UserError


@dataclass(frozen=True)
class Budget:
    """Units (rows or chunks) that a repair takes; none with the reason, worded the same in every call of a run."""

    units: int
    skipped: str | None = None


def row_budget(cached: int, rho: float) -> Budget:
    """Exactly round(rho * M) rows. Raises UserError for a rho outside 0 to 1."""
    _check(rho)
    if cached == 0:
        return Budget(0, "no cached rows")
    units = round(rho * cached)
    return Budget(units, None if units else "rho*M rounds to 0 rows")


def chunk_budget(cached: int, size: int, rho: float) -> Budget:
    """round(rho * M / B) chunks of `size` = B rows; none when M < 2B or rho * M < B. Raises UserError as row_budget.

    rho = 1 is never skipped and takes every chunk, the short last one included: a full repair has to equal Dense,
    for any M, or the control that it is would be void on short prompts.
    """
    _check(rho)
    if cached == 0:
        return Budget(0, "no cached rows")
    if rho == 1:
        return Budget(-(-cached // size))
    if cached < 2 * size:
        return Budget(0, f"M < 2B = {2 * size} rows")
    if rho * cached < size:
        return Budget(0, f"rho*M < B = {size} rows")
    return Budget(round(rho * cached / size))


def _check(rho: float) -> None:
    if not 0 <= rho <= 1:
        raise UserError(f"rho={rho}: expected 0 to 1")
