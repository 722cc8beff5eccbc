"""`docs/log-schema.md` names every field of every record, with its type, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from msgspec import inspect

from bcrbench.runs import schema

DOCS = Path(__file__).parents[2] / "docs" / "log-schema.md"
HEADINGS = {
    "run": schema.RunRecord, "item": schema.ItemRecord, "call": schema.Call, "gate": schema.Gate,
    "rows": schema.Rows, "stages": schema.Stages, "feedback": schema.Feedback, "twin": schema.Twin,
    "grade": schema.GradeRecord, "probe": schema.ProbeRecord, "bench": schema.BenchRecord,
    "work": schema.Work, "end": schema.EndRecord, "memory": schema.Memory,
}  # fmt: skip


def documented(heading: str) -> dict[str, str]:
    text = re.search(rf"^##+ {heading}\n(.*?)(?=^##|\Z)", DOCS.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert text, f"docs/log-schema.md has no section {heading!r}"
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", text[1], re.MULTILINE))


def shown(node: inspect.Type) -> str:
    match node:
        case inspect.StructType(cls=cls):
            return cls.__name__.lower()
        case inspect.ListType(item_type=item):
            return f"list of {shown(item)}"
        case inspect.TupleType(item_types=items):
            return f"[{', '.join(map(shown, items))}]"
        case inspect.UnionType(types=types):
            return " or ".join(map(shown, types))
        case inspect.DictType():
            return "object"
        case inspect.LiteralType() | inspect.StrType():
            return "str"
        case inspect.NoneType():
            return "null"
    return type(node).__name__.removesuffix("Type").lower()


@pytest.mark.parametrize("heading", HEADINGS)
def test_every_field_is_documented(heading: str) -> None:
    kind = inspect.type_info(HEADINGS[heading])
    assert isinstance(kind, inspect.StructType)
    assert documented(heading) == {field.name: shown(field.type) for field in kind.fields}


def test_no_record_is_left_out() -> None:
    kinds = {kind for kind in vars(schema).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)}
    assert kinds - {schema.Strict} == set(HEADINGS.values())
