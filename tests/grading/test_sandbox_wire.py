"""Values travel unchanged between tester and candidate, and nothing but plain data does."""

from __future__ import annotations

import collections
import contextlib
import enum
import fractions
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrbench.grading.sandbox.child import wire
from bcrbench.grading.sandbox.child.tester import restore

atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers().map(lambda n: n**99),
    st.floats(),
    st.complex_numbers(),
    st.text(st.characters(exclude_categories=())),  # lone surrogates too
    st.binary(),
    st.binary().map(bytearray),
    st.decimals(allow_nan=False),
    st.fractions(),
)
keys = st.one_of(st.integers(), st.text(), st.booleans(), st.none(), st.tuples(st.integers(), st.text()))
values = st.recursive(
    st.one_of(atoms, st.sets(keys), st.frozensets(keys), st.builds(range, st.integers(), st.integers())),
    lambda inner: st.one_of(
        st.lists(inner), st.dictionaries(keys, inner), st.lists(inner).map(tuple), st.tuples(inner, inner)
    ),
    max_leaves=12,
)


def sent(value: Any) -> Any:
    return wire.decode(wire.unpack(wire.pack(wire.encode(value))[8:]))


def same(one: Any, other: Any) -> bool:
    """Equal, of the same types throughout, in the same order; NaN is NaN, and 0.0 is not -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same([*one.items()], [*other.items()])
    if isinstance(one, (float, complex)):
        return repr(one) == repr(other)
    return bool(one == other)


@given(values)
def test_plain_data_arrives_as_it_left(value: Any) -> None:
    assert same(sent(value), value)


class Level(enum.IntEnum):
    ONE = 1


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __pos__(self) -> int:
        return 99

    __hash__ = None  # type: ignore[assignment]


class LyingText(str):
    def __str__(self) -> str:
        return "another"


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "base"),
    [
        (Level.ONE, 1),
        (Liar(3), 3),
        (LyingText("own"), "own"),
        (Point(1, [2]), (1, [2])),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (collections.defaultdict(list, {1: [2]}), {1: [2]}),
        (type("L", (list,), {"__iter__": lambda self: iter([9])})([1]), [1]),
    ],
)
def test_subclasses_arrive_as_their_base(value: Any, base: Any) -> None:
    assert same(sent(value), base)


def test_numpy_numbers_arrive_as_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    assert same(sent([numpy.float64(0.5), numpy.int32(3), numpy.bool_(True)]), [0.5, 3, True])


@pytest.mark.parametrize("value", [object(), len, int, lambda: 0, iter([1]), {}.keys(), math])
def test_anything_else_equals_nothing(value: Any) -> None:
    arrived = sent(value)
    assert arrived != value and arrived != arrived
    assert arrived.__eq__(arrived) is False
    assert arrived not in [arrived.told, 0, None, ""]
    with pytest.raises(TypeError):
        arrived < arrived  # noqa: B015


def test_a_list_in_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(RecursionError):
        wire.encode(value)


json_like = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(st.sampled_from([*wire._BUILD, "x"]), inner, max_size=2),
    ),
    max_leaves=8,
)


@given(json_like)
def test_any_message_is_a_value_or_malformed(data: Any) -> None:
    with contextlib.suppress(wire.Malformed):
        wire.encode(wire.decode(data))


@given(st.binary())
def test_any_bytes_are_a_message_or_malformed(body: bytes) -> None:
    with contextlib.suppress(wire.Malformed):
        wire.unpack(body)


class Own(KeyError):
    pass


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ValueError("bad", 3), ValueError, "ValueError: ('bad', 3)"),
        (Own("k"), KeyError, "Own: 'k'"),
        (json.JSONDecodeError("m", "doc", 0), ValueError, "JSONDecodeError: m: line 1 column 1 (char 0)"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), UnicodeDecodeError, "UnicodeDecodeError: 'utf-8' codec"),
        (SystemExit(3), SystemExit, "SystemExit: 3"),
        (type("Odd", (Exception,), {"__str__": lambda self: 3})(), Exception, "Odd"),
        (ZeroDivisionError(), ZeroDivisionError, "ZeroDivisionError"),
        (fractions.Fraction, TypeError, "TypeError"),
    ],
)
def test_exceptions_arrive_as_their_built_in_type(error: Any, kind: type, text: str) -> None:
    error = error if isinstance(error, BaseException) else TypeError(error)
    arrived = wire.decode_error(wire.unpack(wire.pack(wire.encode_error(error))[8:]))
    assert type(arrived) is kind
    assert vars(arrived)["told"].startswith(text)


@given(values, values)
def test_restored_arguments_are_the_same_objects(old: Any, new: Any) -> None:
    kept = restore(old, new)
    assert same(kept, new)
    if type(old) is type(new) and isinstance(old, (list, dict, set, bytearray)):
        assert kept is old
