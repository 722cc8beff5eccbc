"""One pass over memory: float32 on a CPU, compiled by numba.

A segment is worked off in stripes of rows that stay in the caches, so that what is read from memory is the anchors
alone. Stripes are the same whatever the number of threads, and so are the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bcrbench.reuse.arithmetic import loops
from bcrbench.reuse.arithmetic.base import Correction, Gaps, Turn
from bcrbench.reuse.block import flatten

STRIPE = 32  # rows: about 0.7 MB of a 135M model, near what a second-level cache holds
SHARE = 256  # rows whose channel sums are kept apart, for threads and for precision


class Fused:
    """Loops compiled for this CPU, on as many threads as PyTorch may use."""

    name = "fused"

    def gaps(self, rows: Tensor, turn: Turn | None, stored: Sequence[Tensor]) -> Gaps:
        """Gaps of rows to stored anchors (base.Arithmetic)."""
        segment = _Segment(rows, turn)
        sums = _Sums(rows.shape[0], segment.flat.shape[1], [anchor.numpy() for anchor in stored])

        def share(first: int, last: int) -> None:
            for start, end in _cut(first, last, STRIPE):
                sums.take(segment.stripe(start, end), start, end)

        _each(share, _cut(0, rows.shape[0], SHARE))
        return sums.gaps(list(stored))

    def place(
        self, rows: Tensor, turn: Turn | None, correction: Correction | None, back: Turn | None, slots: Tensor
    ) -> None:
        """Write rows into slots (base.Arithmetic)."""
        segment, returning = _Segment(rows, turn), _Rotation(back)
        add = _adder(correction)
        target = slots.permute(2, 0, 1, 3).numpy()

        def stripe(first: int, last: int) -> None:
            placed = returning.of(add(segment.stripe(first, last), first, last))
            target[first:last] = placed.reshape(target[first:last].shape)

        _each(stripe, _cut(0, rows.shape[0], STRIPE))


class _Rotation:
    """Rotates rows [rows, features]; none rotates nothing and copies nothing."""

    def __init__(self, turn: Turn | None) -> None:
        self.still = turn is None or not turn.delta
        if turn is not None:
            angle = turn.inv_freq.float() * turn.delta
            self.cos, self.sin = torch.cos(angle).numpy(), torch.sin(angle).numpy()

    def of(self, rows: Any) -> Any:
        """Rotated rows."""
        if self.still:
            return rows
        turned = np.empty_like(rows)
        loops.rotate(rows, self.cos, self.sin, turned)
        return turned


class _Segment:
    """A segment's rows as [tokens, features], handed out rotated."""

    def __init__(self, rows: Tensor, turn: Turn | None) -> None:
        self.flat = flatten(rows).contiguous().numpy()
        self.rotation = _Rotation(turn)

    def stripe(self, first: int, last: int) -> Any:
        """Rows [first, last), not to be written to."""
        return self.rotation.of(self.flat[first:last])


class _Sums:
    """The sums over a segment, and the anchors that they are taken to."""

    def __init__(self, tokens: int, features: int, anchors: list[Any]) -> None:
        self.tokens, self.anchors = tokens, anchors
        self.by_row = np.zeros((len(anchors), tokens), np.float32)
        self.squares = np.zeros((len(anchors), tokens), np.float32)
        self.by_channel = np.zeros((-(-tokens // SHARE), len(anchors), features), np.float32)

    def take(self, rows: Any, first: int, last: int) -> None:
        """Rows [first, last), all of one share."""
        for i, anchor in enumerate(self.anchors):
            ahead = anchor.shape[0] - self.tokens
            by_row, by_channel = self.by_row[i, first:last], self.by_channel[first // SHARE, i]
            if ahead == 0:
                loops.gaps_in_both(anchor[first:last], rows, by_row, by_channel)
            else:
                loops.gaps_in_rows(anchor[first:last], rows, by_row, self.squares[i, first:last])
                loops.gaps_in_channels(anchor[ahead + first : ahead + last], rows, by_channel)

    def gaps(self, stored: list[Tensor]) -> Gaps:
        """The whole segment's. An anchor just as long has its first rows for its last ones."""
        by_channel = self.by_channel.sum(0)
        same = np.array([anchor.shape[0] == self.tokens for anchor in self.anchors])
        total = np.where(same, by_channel.sum(1, dtype=np.float64), self.squares.sum(1, dtype=np.float64))
        made = (self.by_row, by_channel, total.astype(np.float32))
        return Gaps(stored, *map(torch.from_numpy, made))


def _adder(correction: Correction | None) -> Callable[[Any, int, int], Any]:
    """What gives rows [first, last) with the correction added, in an array of their own."""
    if correction is None:
        return lambda rows, first, last: rows
    deltas, weights, skip = [delta.numpy() for delta in correction.deltas], correction.weights, correction.skip
    if correction.by == "channel":
        channels = weights.contiguous().numpy()

        def by_channel(rows: Any, first: int, last: int) -> Any:
            mended = rows.copy()
            for delta, weight in zip(deltas, channels, strict=True):
                loops.add_by_channel(delta[first:last], weight, mended, skip)
            return mended

        return by_channel
    fours = len(deltas) - len(deltas) % 4
    four_weights = [weights[k : k + 4].T.contiguous().numpy() for k in range(0, fours, 4)]
    single_weights = weights.contiguous().numpy()

    def by_row(rows: Any, first: int, last: int) -> Any:
        mended = rows.copy()
        for k, four in enumerate(four_weights):
            a, b, c, d = (delta[first:last] for delta in deltas[4 * k : 4 * k + 4])
            loops.add_four_by_row(a, b, c, d, four[first:last], mended, skip)
        for delta, weight in zip(deltas[fours:], single_weights[fours:], strict=True):
            loops.add_by_row(delta[first:last], weight[first:last], mended, skip)
        return mended

    return by_row


def _cut(first: int, last: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(start + size, last)) for start in range(first, last, size)]


def _each(work: Callable[[int, int], None], parts: list[tuple[int, int]]) -> None:
    """Do all parts, on PyTorch's number of threads; what one raises is raised."""
    threads = min(torch.get_num_threads(), len(parts))
    if threads <= 1:
        for part in parts:
            work(*part)
        return
    for _ in _threads(threads).map(lambda part: work(*part), parts):
        pass


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="segments")
