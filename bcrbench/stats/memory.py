"""What a run took of memory, a row a condition: its process's peak, the weights, the pool, and CUDA's allocator."""

from __future__ import annotations

from collections.abc import Sequence

from bcrbench.stats.arms import Arm
from bcrbench.stats.summary import Row

_SIZES = ("peak", "weights", "pool", "pool_peak", "device_peak", "device_reserved")
SAID = (
    "memory, 10^6 bytes, of the session that ended the run: peak is what was resident in the process at most, since "
    "the run began or, where `since` says process, the process did; evicted: anchors given up for the pool's budget"
)


def memory_row(arm: Arm) -> Row:
    """The end record's memory in megabytes; all None without one, as in logs before schema 3."""
    found = arm.log.end.memory if arm.log.end is not None else None
    row: Row = {f"{name}_mb": None if found is None else _mega(getattr(found, name)) for name in _SIZES}
    row["since"] = found.peak_since if found is not None else None
    row["evicted"] = found.evicted_for_bytes if found is not None else None
    return row


def _mega(size: int | None) -> float | None:
    return None if size is None else size / 1e6


def shown(rows: Sequence[Row]) -> list[Row]:
    """The rows without the columns that none of them has."""
    return [{name: row[name] for name in row if any(other[name] is not None for other in rows)} for row in rows]
