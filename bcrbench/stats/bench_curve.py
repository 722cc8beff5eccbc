"""A bench's curve of assembly as rows: what gate and assembly cost a row and anchor, and the law that this follows.

Fitted is milliseconds = fixed + b rows anchors + c rows, none below 0, by least squares of relative errors, so that a
short segment counts as much as a long one. The part by rows alone is the segment's own rows, read and written whatever
the pool holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from bcrbench.runs.log import Log
from bcrbench.runs.schema import BenchRecord
from bcrbench.stats.bench_rows import CURVE
from bcrbench.stats.summary import Row

SAID = (
    "assembly: gate, weights and blend of one call over random rows, no model pass; us_a_row_anchor: microseconds over "
    "rows x anchors; gb_per_s: bytes that it cannot avoid moving, over the time; copy_share: that as a share of the "
    "copy's; law: ms = fixed + b rows anchors + c rows, by relative least squares; off: the law's error at the point"
)
FEWEST = 4  # points that a law of three numbers needs to be held against anything


@dataclass(frozen=True)
class Point:
    """One segment's length and one pool's size, with the measured rounds."""

    rows: int
    anchors: int
    records: list[BenchRecord]

    @property
    def ms(self) -> float:
        """Median milliseconds of gate and assembly."""
        return median(record.ttft_ms for record in self.records)


@dataclass(frozen=True)
class Law:
    """Milliseconds as a fixed part, one a row and anchor, and one a row."""

    fixed: float
    row_anchor: float
    row: float

    def ms(self, point: Point) -> float:
        """What it says of a point."""
        return self.fixed + self.row_anchor * point.rows * point.anchors + self.row * point.rows

    def off(self, point: Point) -> float:
        """How far that is from what was measured, as a share of it."""
        return self.ms(point) / point.ms - 1


def points_of(log: Log[Any]) -> list[Point]:
    """The measured points by rows and anchors, warm-ups left out."""
    found: dict[tuple[int, int], list[BenchRecord]] = defaultdict(list)
    for record in log.benches:
        if record.workload.startswith(CURVE) and not record.warm_up:
            rows, _, anchors = record.workload.removeprefix(CURVE).partition("x")
            found[int(rows), int(anchors)].append(record)
    return [Point(*place, found[place]) for place in sorted(found)]


def law_of(points: Sequence[Point], by_row: bool = True) -> Law | None:
    """The law that fits best, with or without a part by rows alone; None for too few points."""
    if len(points) < FEWEST:
        return None
    import numpy as np
    from scipy.optimize import nnls

    terms = [[1.0, p.rows * p.anchors, p.rows * by_row] for p in points]
    relative = np.asarray(terms) / np.asarray([[p.ms] for p in points])
    size = np.maximum(relative.max(axis=0), 1e-300)  # terms of one size: the solver compares them
    found, _ = nnls(relative / size, np.ones(len(points)))
    return Law(*map(float, found / size))


def curve_rows(log: Log[Any], bytes_per_s: float) -> list[Row]:
    """A row a point."""
    points = points_of(log)
    law = law_of(points)
    return [_row(point, law, bytes_per_s) for point in points]


def _row(point: Point, law: Law | None, bytes_per_s: float) -> Row:
    moved = sum(part.bytes for part in point.records[0].work)
    rate = 1e3 * moved / point.ms
    return {
        "segment_rows": point.rows,
        "anchors": point.anchors,
        "gate_ms": median(record.ms.gate for record in point.records),
        "assemble_ms": median(record.ms.assemble for record in point.records),
        "both_ms": point.ms,
        "us_a_row_anchor": 1e3 * point.ms / (point.rows * point.anchors),
        "gb_per_s": rate / 1e9,
        "copy_share": rate / bytes_per_s,
        "fit_ms": law.ms(point) if law else None,
        "off": law.off(point) if law else None,
    }


def law_rows(log: Log[Any]) -> list[Row]:
    """Two laws and how well each fits: with a part by rows alone, and by rows x anchors only; none for few points."""
    points = points_of(log)
    made = {"fixed + b rows anchors + c rows": law_of(points), "fixed + b rows anchors": law_of(points, by_row=False)}
    return [_law_row(name, law, points) for name, law in made.items() if law is not None]


def _law_row(name: str, law: Law, points: Sequence[Point]) -> Row:
    off = [abs(law.off(point)) for point in points]
    return {
        "law": name,
        "points": len(points),
        "fixed_ms": law.fixed,
        "us_a_row_anchor": 1e3 * law.row_anchor,
        "us_a_row": 1e3 * law.row,
        "median_off": median(off),
        "largest_off": max(off),
    }


def left_out(log: Log[Any]) -> list[str]:
    """Points of a whole bench that were not measured, as the memory was too small."""
    effective = log.run.effective
    if not effective.get("assembly") or log.status != "complete":
        return []
    measured = {(point.rows, point.anchors) for point in points_of(log)}
    wanted = [(rows, anchors) for rows in sorted(effective["rows"]) for anchors in sorted(effective["pools"])]
    return [f"{rows} rows x {anchors}" for rows, anchors in wanted if (rows, anchors) not in measured]
