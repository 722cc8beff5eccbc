"""Records made from the schema itself, so that a new field is covered without touching a test."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from bcrbench.runs.schema import ItemRecord, RunRecord

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def records(kind: type) -> st.SearchStrategy[Any]:
    """Any record of a kind, with any text and any number that JSON can hold in its fields."""
    return _strategy(inspect.type_info(kind))


def _strategy(node: inspect.Type) -> st.SearchStrategy[Any]:
    match node:
        case inspect.StructType(cls=cls, fields=fields):
            return st.builds(cls, **{field.name: _strategy(field.type) for field in fields})
        case inspect.UnionType(types=types):
            return st.one_of([_strategy(one) for one in types])
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.ListType(item_type=item):
            return st.lists(_strategy(item), max_size=3)
        case inspect.TupleType(item_types=items):
            return st.tuples(*[_strategy(item) for item in items])
        case inspect.DictType(value_type=value):
            return st.dictionaries(st.text(max_size=6), _strategy(value), max_size=3)
        case inspect.StrType(pattern=None):
            return st.text(max_size=12)
        case inspect.StrType():
            return st.sampled_from(["correct", "wrong", "ungraded", "error:oom"])
        case inspect.IntType():
            return st.integers(-(2**63), 2**63 - 1)
        case inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.AnyType():
            return JSON
    raise TypeError(f"no strategy for {node}")


def plain_run(**changes: Any) -> RunRecord:
    """A run record with the least in it."""
    fields: dict[str, Any] = {field.name: _least(field.type) for field in inspect.type_info(RunRecord).fields}
    return RunRecord(**{**fields, "schema_version": 1, **changes})


def plain_item(index: int, **changes: Any) -> ItemRecord:
    """An item with the least in it."""
    fields: dict[str, Any] = {field.name: _least(field.type) for field in inspect.type_info(ItemRecord).fields}
    return ItemRecord(**{**fields, "index": index, "id": f"q{index}", "outcome": "correct", **changes})


def _least(node: inspect.Type) -> Any:
    values = {
        inspect.StrType: "text", inspect.IntType: 0, inspect.FloatType: 0.5, inspect.BoolType: False,
        inspect.DictType: {}, inspect.ListType: [], inspect.UnionType: None,
    }  # fmt: skip
    return values[type(node)]


def lines(*items: msgspec.Struct) -> bytes:
    """The records as the lines of a log."""
    return b"".join(msgspec.json.encode(item) + b"\n" for item in items)
