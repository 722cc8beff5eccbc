"""The inner loops over segments and anchors, in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from bcrbench.engine.compiled import POSITION, ROW, ROWS, compiled


@compiled(ROWS, ROWS, ROW, ROW)
def gaps_in_rows(stored: Any, rows: Any, by_row: Any, squares: Any) -> None:
    """Set each row's sum of absolute differences, and of squared ones."""
    for r in range(rows.shape[0]):
        total, square = np.float32(0), np.float32(0)
        for f in range(rows.shape[1]):
            gap = stored[r, f] - rows[r, f]
            total += abs(gap)
            square += gap * gap
        by_row[r], squares[r] = total, square


@compiled(ROWS, ROWS, ROW)
def gaps_in_channels(stored: Any, rows: Any, by_channel: Any) -> None:
    """Add each channel's squared differences."""
    for r in range(rows.shape[0]):
        for f in range(rows.shape[1]):
            gap = stored[r, f] - rows[r, f]
            by_channel[f] += gap * gap


@compiled(ROWS, ROWS, ROW, ROW)
def gaps_in_both(stored: Any, rows: Any, by_row: Any, by_channel: Any) -> None:
    """Set each row's sum of absolute differences and add each channel's squared ones, in one reading.

    Two rows a turn: a channel's sum is loaded and stored once for both. An odd last row meets itself at no weight.
    """
    last = rows.shape[0] - 1
    for r in range(0, rows.shape[0], 2):
        s = min(r + 1, last)
        once = np.float32(s - r)
        one_total, two_total = np.float32(0), np.float32(0)
        for f in range(rows.shape[1]):
            one = stored[r, f] - rows[r, f]
            two = stored[s, f] - rows[s, f]
            one_total += abs(one)
            two_total += abs(two)
            by_channel[f] += one * one + once * two * two
        by_row[s] = two_total
        by_row[r] = one_total


@compiled(ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, POSITION)
def add_four_by_row(a: Any, b: Any, c: Any, d: Any, weights: Any, rows: Any, skip: int) -> None:
    """Add four anchors' deviations, each row's with its four weights [rows, 4]."""
    for r in range(rows.shape[0]):
        row = rows[r, skip:]
        one, two, three, four = a[r, skip:], b[r, skip:], c[r, skip:], d[r, skip:]
        first, second, third, fourth = weights[r, 0], weights[r, 1], weights[r, 2], weights[r, 3]
        for f in range(row.shape[0]):
            row[f] += (first * one[f] + second * two[f]) + (third * three[f] + fourth * four[f])


@compiled(ROWS, ROW, ROWS, POSITION)
def add_by_row(delta: Any, weights: Any, rows: Any, skip: int) -> None:
    """Add one anchor's deviations, each row's with its weight."""
    for r in range(rows.shape[0]):
        row, one, weight = rows[r, skip:], delta[r, skip:], weights[r]
        for f in range(row.shape[0]):
            row[f] += weight * one[f]


@compiled(ROWS, ROW, ROWS, POSITION)
def add_by_channel(delta: Any, weights: Any, rows: Any, skip: int) -> None:
    """Add one anchor's deviations, each channel's with its weight."""
    weight = weights[skip:]
    for r in range(rows.shape[0]):
        row, one = rows[r, skip:], delta[r, skip:]
        for f in range(row.shape[0]):
            row[f] += weight[f] * one[f]


# Without licence to reorder or contract: the same bits as engine/rope.py gives.
@compiled(ROWS, ROW, ROW, ROWS, reordered=False)
def rotate(rows: Any, cos: Any, sin: Any, turned: Any) -> None:
    """Rotate rows [rows, heads * head_dim] of keys by angles of [head_dim / 2]."""
    half = cos.shape[0]
    for r in range(rows.shape[0]):
        for start in range(0, rows.shape[1], 2 * half):
            low, high = rows[r, start : start + half], rows[r, start + half : start + 2 * half]
            new_low, new_high = turned[r, start : start + half], turned[r, start + half : start + 2 * half]
            for j in range(half):
                new_low[j] = low[j] * cos[j] - high[j] * sin[j]
                new_high[j] = high[j] * cos[j] + low[j] * sin[j]
