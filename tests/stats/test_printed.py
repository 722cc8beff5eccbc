"""A value prints as a token when Python's `format` makes that token of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrbench.stats.conformance.printed import OneOf, Range, agrees, show


@given(value=st.floats(-1e4, 1e4), digits=st.integers(0, 5))
def test_a_value_agrees_with_its_own_rounding_only(value: float, digits: int) -> None:
    token = f"{value + 0.0:.{digits}f}".replace("-0." if abs(value) < 1e-9 else "\0", "0.")
    if token.lstrip("-0.") == "" and token.startswith("-") and abs(value) >= 1e-9:
        return  # a small negative number prints as -0.0, which no paper does
    token = token.lstrip("-") if abs(value) < 1e-9 else token
    assert agrees([value], [token])
    assert not agrees([value], [f"{float(token) + 2 * 10.0**-digits:.{digits}f}"])


@pytest.mark.parametrize(
    ("value", "token"),
    [
        (129 / 240, "0.537"),
        (53 / 80, "0.662"),
        (189 / 240, "0.787"),
        (201 / 240, "0.838"),
        (0.625, "0.62"),
        (86.25, "86.2"),
    ],
)
def test_ties_follow_format(value: float, token: str) -> None:
    assert agrees([value], [token])


@pytest.mark.parametrize(
    ("value", "token", "told"),
    [(5.9, "<6", True), (6.1, "<6", False), (0.06, ">0.05", True), (0.04, ">0.05", False), (True, "feasible", True),
     (False, "feasible", False), (True, "1", False), (8e-9, "<1e-4", True), (-0.0, "0.0", True)],
)  # fmt: skip
def test_bounds_and_words(value: float, token: str, told: bool) -> None:
    assert agrees([value], [token]) is told


def test_any_of_several_and_ranges() -> None:
    assert agrees([OneOf((0.1, 0.638))], ["0.638"]) and not agrees([OneOf((0.1, 0.2))], ["0.638"])
    assert not agrees([OneOf(())], ["1"])
    assert agrees([Range(49.31, 49.44)], ["49.4"]) and agrees([Range(49.31, 49.46)], ["49.5"])
    assert not agrees([Range(49.31, 49.44)], ["49.5"])


def test_one_token_speaks_for_all_and_none_for_nothing() -> None:
    assert agrees([13, 13], ["13"]) and not agrees([13, 12], ["13"])
    assert not agrees([1.0, 2.0, 3.0], ["1", "2"]) and not agrees([], ["1"])


def test_a_disagreement_is_shown_with_more_digits() -> None:
    assert show([7.66667], ["7.6"]) == "7.667"
    assert show([False], ["linear"]) == "not linear"
    assert show([Range(1.0, 2.0)], ["1.5"]) == "1.00 to 2.00"
    assert show([OneOf((0.5, 0.638))], ["0.638"]) == "0.638"
