"""The fused arithmetic against the plain one: the same gaps and the same rows, whatever shapes, lengths and threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bcrbench.engine.rope import rotate
from bcrbench.reuse.arithmetic import Arithmetic, Correction, Turn, pick
from bcrbench.reuse.arithmetic.fused import SHARE, Fused
from bcrbench.reuse.arithmetic.plain import Plain, compiled
from bcrbench.reuse.block import flatten

some = settings(max_examples=60, deadline=None)
# Around the sizes at which work is cut, and small ones.
tokens = st.one_of(st.integers(0, 70), st.sampled_from([SHARE - 1, SHARE, SHARE + 1, 2 * SHARE + 33]))


@st.composite
def segments(draw: Any) -> dict[str, Any]:
    """Rows, anchors at least as long with deviations, weights and rotations."""
    count, layers, heads, half = draw(tokens), draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 9))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    features = layers * heads * 2 * half

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    lengths = draw(st.lists(st.sampled_from([count, count + 1, count + 40]), min_size=1, max_size=9))
    turns = [Turn(draw(st.integers(-900, 900)), torch.rand(half, generator=generator)) for _ in range(2)]
    return {
        "rows": drawn(count, layers, heads, 2 * half),
        "anchors": [drawn(length, features) for length in lengths],
        "weights": {
            "row": torch.softmax(drawn(len(lengths), count), 0),
            "channel": torch.softmax(drawn(len(lengths), features), 0),
        },
        "turn": draw(st.sampled_from([None, turns[0]])),
        "back": draw(st.sampled_from([None, turns[1]])),
        "skip": heads * 2 * half,
    }


@some
@given(segments())
def test_gaps_are_the_plain_ones(case: dict[str, Any]) -> None:
    fused = Fused().gaps(case["rows"], case["turn"], case["anchors"])
    plain = Plain().gaps(case["rows"], case["turn"], case["anchors"])
    assert fused.of(case["anchors"]) and plain.of(case["anchors"])
    for name in ("by_row", "by_channel", "total"):
        torch.testing.assert_close(getattr(fused, name), getattr(plain, name), rtol=2e-5, atol=1e-5)


@some
@given(segments())
def test_gaps_are_what_their_words_say(case: dict[str, Any]) -> None:
    rows = case["rows"]
    turned = rows if case["turn"] is None else rotate(rows, case["turn"].delta, case["turn"].inv_freq)
    flat, count = flatten(turned).double(), len(rows)
    found = Fused().gaps(rows, case["turn"], case["anchors"])
    for i, anchor in enumerate(case["anchors"]):
        first, last = anchor[:count].double() - flat, anchor[len(anchor) - count :].double() - flat
        for ours, exact in (
            (found.by_row[i], first.abs().sum(1)),
            (found.by_channel[i], last.square().sum(0)),
            (found.total[i], first.square().sum()),
        ):
            torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-6)


@some
@given(case=segments(), by=st.sampled_from(["row", "channel", None]), longer=st.integers(0, 3))
def test_rows_are_placed_alike(case: dict[str, Any], by: Literal["row", "channel"] | None, longer: int) -> None:
    rows, given_rows = case["rows"], case["rows"].clone()
    correction = None if by is None else Correction(case["anchors"], case["weights"][by], by, case["skip"])
    count, layers, heads, dim = rows.shape
    caches = [torch.zeros(layers, 1, heads, count + longer + 2, dim) for _ in range(2)]
    for arithmetic, made in zip((Fused(), Plain()), caches, strict=True):
        slots = made[:, 0, :, longer : longer + count]
        arithmetic.place(rows, case["turn"], correction, case["back"], slots)
        assert not made[:, :, :, :longer].any() and not made[:, :, :, longer + count :].any()
    assert torch.equal(rows, given_rows), "a segment's own rows were written to"
    if correction is None:
        assert torch.equal(*caches), "a rotation is the same to the last bit"
    torch.testing.assert_close(*caches, rtol=1e-5, atol=2e-5)


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@some
@given(case=segments(), by=st.sampled_from(["row", "channel"]))
def test_the_number_of_threads_changes_no_bit(case: dict[str, Any], by: Literal["row", "channel"]) -> None:
    correction = Correction(case["anchors"], case["weights"][by], by, case["skip"])
    count, layers, heads, dim = case["rows"].shape
    found = []
    for number in (1, 3):
        slots = torch.zeros(layers, heads, count, dim)
        with threads(number):
            gaps = Fused().gaps(case["rows"], case["turn"], case["anchors"])
            Fused().place(case["rows"], case["turn"], correction, case["back"], slots)
        found.append((gaps.by_row, gaps.by_channel, gaps.total, slots))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_numbers_that_are_none_stay_so() -> None:
    rows, anchor = torch.zeros(3, 2, 1, 4), torch.zeros(3, 8)
    anchor[1, 5] = float("nan")
    for arithmetic in (Fused(), Plain()):
        gaps = arithmetic.gaps(rows, None, [anchor])
        assert gaps.by_row[0].isnan().tolist() == [False, True, False]
        assert gaps.by_channel[0].isnan().tolist() == [False] * 5 + [True, False, False]
        assert gaps.total.isnan().all()


@pytest.mark.parametrize(("dtype", "name"), [(torch.float32, "fused"), (torch.bfloat16, "plain")])
def test_what_is_picked_on_a_cpu(dtype: torch.dtype, name: str) -> None:
    assert pick("cpu", dtype).name == name


@cache
def traced() -> Arithmetic:
    """All of the compiler but its code generator."""
    return compiled(torch.device("cpu"), backend="eager")


@settings(max_examples=15, deadline=None)
@given(case=segments(), by=st.sampled_from(["row", "channel"]))
def test_what_the_compiler_makes_of_the_plain_one_is_the_same(
    case: dict[str, Any], by: Literal["row", "channel"]
) -> None:
    assert traced().name == "compiled"
    correction = Correction(case["anchors"], case["weights"][by], by, case["skip"])
    count, layers, heads, dim = case["rows"].shape
    found = []
    for arithmetic in (traced(), Plain()):
        slots = torch.zeros(layers, heads, count, dim)
        gaps = arithmetic.gaps(case["rows"], case["turn"], case["anchors"])
        arithmetic.place(case["rows"], case["turn"], correction, case["back"], slots)
        found.append((gaps.by_row, gaps.by_channel, gaps.total, slots))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_what_cannot_be_compiled_is_done_plainly_and_says_so() -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("no compiler here")

    assert compiled(torch.device("cpu"), backend=broken).name.startswith("plain (not compiled: ")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_gives_what_a_cpu_gives() -> None:
    arithmetic, device = pick("cuda", torch.float32), torch.device("cuda")
    rows, anchors = torch.randn(300, 4, 2, 16), [torch.randn(length, 128) for length in (300, 340, 300)]
    weights = torch.softmax(torch.randn(3, 300), 0)
    slots, expected = torch.zeros(4, 2, 300, 16, device=device), torch.zeros(4, 2, 300, 16)
    there = [anchor.to(device) for anchor in anchors]
    found, plain = arithmetic.gaps(rows.to(device), None, there), Plain().gaps(rows, None, anchors)
    arithmetic.place(rows.to(device), None, Correction(there, weights.to(device), "row", 32), None, slots)
    Plain().place(rows, None, Correction(anchors, weights, "row", 32), None, expected)
    for one, other in ((found.by_row, plain.by_row), (found.total, plain.total), (slots, expected)):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-4)
