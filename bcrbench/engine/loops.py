"""The inner loops of attention on a CPU, in float32.

What is no number stays none: comparisons are put so that a NaN comes through.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bcrbench.engine.compiled import POSITION, POSITIONS, ROW, ROWS, compiled, inlined

_REAL, _WHOLE = np.float32, np.int32
_LEAST = _REAL(-80.0)  # less counts as this much, 2e-35: nothing beside the largest weight, which is 1


@inlined
def _exp(x: Any) -> Any:
    """The exponential of x <= 0, to 1.2e-7 of itself; arithmetic alone, so that loops over it run in lanes (Cephes)."""
    x = _LEAST if x < _LEAST else x
    twos = np.floor(x * _REAL(1.44269504) + _REAL(0.5))
    x = x - twos * _REAL(0.693359375) + twos * _REAL(2.12194440e-4)
    sum_ = _REAL(1.9875691500e-4)
    sum_ = sum_ * x + _REAL(1.3981999507e-3)
    sum_ = sum_ * x + _REAL(8.3334519073e-3)
    sum_ = sum_ * x + _REAL(4.1665795894e-2)
    sum_ = sum_ * x + _REAL(1.6666665459e-1)
    sum_ = sum_ * x + _REAL(5.0000001201e-1)
    sum_ = sum_ * x * x + x + _REAL(1.0)
    return sum_ * _WHOLE((_WHOLE(twos) + _WHOLE(127)) << _WHOLE(23)).view(np.float32)


@compiled(ROWS, ROWS, ROWS, ROWS, ROWS)
def attend_alone(query: Any, keys: Any, values: Any, weights: Any, out: Any) -> None:
    """Set `out` to the attention of one position's scaled queries [group, dim]; `weights` [group, keys] is scratch."""
    heads, dim = query.shape
    count = keys.shape[0]
    for n in range(count):
        for head in range(heads):
            score = _REAL(0)
            for d in range(dim):
                score += query[head, d] * keys[n, d]
            weights[head, n] = score
    for head in range(heads):
        top = weights[head, 0]
        for n in range(count):
            top = max(top, weights[head, n])
        total = _REAL(0)
        for n in range(count):
            weight = _exp(weights[head, n] - top)
            weights[head, n] = weight
            total += weight
        total = _REAL(1) / total
        for n in range(count):
            weights[head, n] *= total
        for d in range(dim):
            out[head, d] = _REAL(0)
    for n in range(count):
        for head in range(heads):
            weight = weights[head, n]
            for d in range(dim):
                out[head, d] += weight * values[n, d]


@compiled(ROWS, POSITIONS, POSITION)
def hide(scores: Any, positions: Any, first: Any) -> None:
    """Hide from each row [rows, keys] the keys after its position; the first key stands at `first`."""
    for row in range(scores.shape[0]):
        for n in range(positions[row] - first + 1, scores.shape[1]):
            scores[row, n] = -np.inf


@compiled(ROWS, ROW, ROW, ROW, ROWS)
def weigh(scores: Any, tops: Any, top: Any, total: Any, out: Any) -> None:
    """Turn one block's scores [rows, keys] into weights relative to the largest score so far.

    `tops` are the block's largest scores; `top`, `total` and `out` [rows, dim] are those of the blocks before, and are
    brought to the new largest one.
    """
    for row in range(scores.shape[0]):
        if tops[row] > top[row]:
            shrunk = _exp(top[row] - tops[row])
            top[row] = tops[row]
            total[row] *= shrunk
            for d in range(out.shape[1]):
                out[row, d] *= shrunk
        largest = top[row]
        added = _REAL(0)
        for n in range(scores.shape[1]):
            weight = _exp(scores[row, n] - largest)
            scores[row, n] = weight
            added += weight
        total[row] += added
