"""The task gsm8k: rows to items, what bad rows get, and prompts whose worked examples are right."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrbench.agents.graph import assign_roles, build_graph
from bcrbench.agents.promptset import Heard
from bcrbench.errors import UserError
from bcrbench.grading.extractors import Exact, Strict
from bcrbench.tasks import TASKS
from bcrbench.tasks.base import items_hash
from bcrbench.tasks.gsm8k import Gsm8k

ROWS = Path(__file__).parents[1] / "data" / "gsm8k_rows.jsonl"
GOOD = {"question": "How many?", "answer": "1 + 1 = <<1+1=2>>2\n#### 2"}


@pytest.fixture
def file(tmp_path):
    """Writes rows (objects or raw lines) and gives the path as text."""

    def write(*rows, end="\n") -> str:
        path = tmp_path / "rows.jsonl"
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        path.write_bytes(b"".join(line + end.encode() for line in lines))
        return str(path)

    return write


def refusal(data) -> str:
    """The one line that a person gets."""
    with pytest.raises(UserError) as caught:
        Gsm8k().items(data)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_real_rows_become_items_in_order():
    items = Gsm8k().items(str(ROWS))
    assert [item.id for item in items] == ["gsm8k-0000", "gsm8k-0001", "gsm8k-0002", "gsm8k-0003", "gsm8k-0004"]
    assert [item.gold for item in items] == ["18", "3", "70000", "2125", "-10"]
    assert items[0].question.startswith("Janet\u2019s ducks")


def test_the_exact_grader_solves_every_official_solution():
    rows = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    task = Gsm8k()
    grader = task.graders[task.default_grader]
    for row, item in zip(rows, task.items(str(ROWS)), strict=True):
        assert grader.correct(grader.predict(row["answer"]), item.gold)
        assert not grader.correct(grader.predict(row["answer"] + "1"), item.gold)


def test_files_and_the_hub_give_the_same_items(hub):
    hub.rows = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    items = Gsm8k().items("openai/gsm8k")
    assert hub.calls == [(("openai/gsm8k", "main"), {"split": "test"})]
    assert items == Gsm8k().items(str(ROWS))


def test_an_existing_path_wins_over_a_hub_name(hub, tmp_path, monkeypatch):
    (tmp_path / "owner").mkdir()
    (tmp_path / "owner" / "name").write_bytes(ROWS.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert len(Gsm8k().items("owner/name")) == 5
    assert hub.calls == []


def test_a_file_needs_no_datasets_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)  # importing it now raises ImportError
    assert Gsm8k().items(str(ROWS))
    assert "'datasets'" in refusal("openai/gsm8k")


@pytest.mark.parametrize(
    "error", [ConnectionError("no\nroute"), ValueError("BuilderConfig 'main' not found"), FileNotFoundError("x")]
)
def test_a_data_set_that_cannot_be_loaded_is_refused_in_one_line(hub, error):
    hub.error = error
    message = refusal("some-one/some.set")
    assert "some-one/some.set" in message and "'main'" in message and "'test'" in message


def test_no_data_says_what_to_give(hub):
    message = refusal(None)
    assert "--data FILE.jsonl" in message and "--data openai/gsm8k" in message
    assert hub.calls == []


@pytest.mark.parametrize(
    "data", ["missing.jsonl", "folder/missing.jsonl", "folder/missing.json", "gsm8k", "a/b/c", "", "./a", "x" * 5000]
)
def test_what_is_neither_file_nor_hub_name_is_refused_without_network(hub, data):
    assert "no such file" in refusal(data)
    assert hub.calls == []


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"question": "Q"}, "field 'answer': missing"),
        ({"answer": "#### 1"}, "field 'question': missing"),
        (GOOD | {"question": " \n"}, "field 'question': expected text"),
        (GOOD | {"question": None}, "field 'question': expected text"),
        (GOOD | {"answer": 2}, "field 'answer': expected text"),
        (GOOD | {"answer": "It is 2."}, "field 'answer': expected text that ends in '#### NUMBER'"),
        (GOOD | {"answer": "#### 2\nso there"}, "field 'answer': expected"),
        (GOOD | {"answer": "#### two"}, "field 'answer': expected"),
        (GOOD | {"answer": "#### "}, "field 'answer': expected"),
        (GOOD | {"answer": "#### 2 " + "x" * 500}, "field 'answer': expected"),
        (GOOD | {"id": 1.5}, "field 'id': expected text or an integer"),
        (GOOD | {"id": True}, "field 'id': expected text or an integer"),
        (GOOD | {"id": ""}, "field 'id': expected text or an integer"),
        (GOOD | {"id": "gsm8k-0000"}, "field 'id': 'gsm8k-0000' is given twice"),
        ([1, 2], "expected an object"),
        ("text", "expected an object"),
        (b'{"question": "Q", ', "expected one JSON object a line"),
        (b'{"question": "\xff", "answer": "#### 1"}', "expected one JSON object a line"),
        (b'{"question": "\\ud800", "answer": "#### 1"}', "expected one JSON object a line"),
    ],
)
def test_bad_rows_name_file_line_and_field(file, row, words):
    path = file(GOOD, row)
    message = refusal(path)
    assert message.startswith(f"{path}:2: {words}")
    assert len(message) < len(path) + 200


def test_lines_are_counted_as_an_editor_counts_them(file):
    path = file(GOOD, b"", b"  ", {"question": "Q"})
    assert refusal(path).startswith(f"{path}:4: ")


def test_empty_files_and_folders_are_refused(file, tmp_path):
    assert "no rows" in refusal(file())
    assert "cannot be read" in refusal(str(tmp_path))


def test_text_stays_text(file):
    """No value is read as missing, and only newlines end a row."""
    questions = ["None", "NA", "null", "nan", "a\u2028b\u0085c", " outer space ", "{question}"]
    path = file(*({"question": question, "answer": "#### 1,000.0"} for question in questions), end="\r\n")
    items = Gsm8k().items(path)
    assert [item.question for item in items] == questions
    assert {item.gold for item in items} == {"1000.0"}


def test_the_last_hashes_count_and_a_byte_order_mark_does_not(file):
    row = json.dumps(GOOD | {"answer": "#### 1\nno:\n#### 2"}).encode()
    assert [item.gold for item in Gsm8k().items(file(b"\xef\xbb\xbf" + row, row))] == ["2", "2"]


def test_ids_may_be_given(file):
    items = Gsm8k().items(file(GOOD | {"id": "mine"}, GOOD | {"id": 7}, GOOD))
    assert [item.id for item in items] == ["mine", "7", "gsm8k-0002"]


@given(st.lists(st.tuples(st.text(min_size=1), st.integers(-(10**9), 10**9)), min_size=1, max_size=5))
def test_items_keep_every_question_and_gold(tmp_path_factory, pairs):
    rows = [{"question": "Q" + question, "answer": f"so\n#### {gold:,}"} for question, gold in pairs]
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_bytes("\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode("utf-8", "replace"))
    items = Gsm8k().items(str(path))
    assert [item.gold for item in items] == [str(gold) for _, gold in pairs]
    assert items_hash(items) == items_hash(Gsm8k().items(str(path)))
    if len(items) > 1:
        assert items_hash(items) != items_hash(items[::-1])


def test_the_task_is_registered_and_whole():
    task = TASKS.get("gsm8k")()
    assert (task.name, task.max_new_tokens) == ("gsm8k", 512)
    assert {name: grader.name for name, grader in task.graders.items()} == {
        name: name for name in ("exact", "strict", "released")
    }
    assert task.default_grader in task.graders


PROMPTS = Gsm8k().prompts()
PROGRAMMER = "Programming Expert"


def examples(role: str) -> list[str]:
    """A role's worked examples, each with its question."""
    return [part.strip() for part in PROMPTS.role(role).few_shot.split("Q:\n") if part.strip()]


def test_roles_cycle_in_order_and_answer_as_asked():
    assert PROMPTS.worker_roles() == ["Math Solver", "Mathematical Analyst", PROGRAMMER, "Inspector"]
    assert PROMPTS.question_prefix == "Q:\n"
    assert [worker.assistant for worker in PROMPTS.workers] == ["A: "] * 4
    assert PROMPTS.decision.assistant == ""
    for wording in [*PROMPTS.workers, PROMPTS.decision]:
        assert ("The answer is" in wording.system) == (wording.role != PROGRAMMER)
    assert [len(examples(role)) for role in PROMPTS.worker_roles()] == [3, 2, 2, 0]


@pytest.mark.parametrize("role", PROMPTS.worker_roles())
def test_the_question_stands_as_its_stand_alone_prefix_has_it(role):
    """A question prefilled alone sees the text that also stands before it in the prompt."""
    assert PROMPTS.user_text(role, "\ue000", []).endswith(PROMPTS.question_prefix + "\ue000")


@pytest.mark.parametrize("role", ["Math Solver", "Mathematical Analyst"])
def test_worked_examples_close_as_the_strict_grader_asks(role):
    answers = [Strict().predict(example) for example in examples(role)]
    assert None not in answers
    for example, answer in zip(examples(role), answers, strict=True):
        results = re.findall(r"= ([0-9.]*[0-9])", example)
        assert answer in results


def with_values(example: str) -> str:
    """The example with every {letter} replaced by its value: the number that ends the statement defining it."""
    statements = example.replace(" and ", "\n")
    values = dict(re.findall(r"^(?:Known: )?\{(\w)\} = (?:.*= )?([0-9.]*[0-9])\.?$", statements, re.MULTILINE))
    return re.sub(r"\{(\w)\}", lambda match: values.get(match[1], match[0]), example)


@pytest.mark.parametrize("example", [*examples("Math Solver"), *examples("Mathematical Analyst")])
def test_every_calculation_in_a_worked_example_is_right(example):
    """Both sides of every equals sign are arithmetic and have the same value, letters included."""
    text = with_values(example)
    assert "{" not in text
    assert text.count("=") >= 6
    for sign in re.finditer("=", text):
        left = re.search(r"[0-9.()+*/ -]+$", text[: sign.start()])[0].strip(" .")
        right = re.match(r"[0-9.()+*/ -]+", text[sign.end() :])[0].strip(" .")
        assert eval(left) == pytest.approx(eval(right)), text[sign.start() - 30 : sign.end() + 20]


def test_the_code_examples_run_and_give_the_right_answer():
    expected = [(22 * 18 - 150) * 7 - 90, (360 - 120) / (9 - 3)]
    for example, answer in zip(examples(PROGRAMMER), expected, strict=True):
        assert example.endswith("\n```")
        code = example.split("A: ```python\n")[1].removesuffix("```")
        done = subprocess.run(
            [sys.executable, "-c", f"{code}\nprint(answer)"], capture_output=True, text=True, check=True
        )
        assert Exact().correct(done.stdout, str(answer))


@pytest.mark.parametrize("workers", range(1, 6))
def test_every_agent_can_be_prompted_and_text_stands_between_all_contents(workers):
    roles = assign_roles("cycle", PROMPTS.worker_roles(), workers)
    agents = build_graph("full", workers, roles, PROMPTS.decision.role)
    names = {agent.id: agent.role for agent in agents}
    for agent in agents:
        heard = [Heard(peer, names[peer], "\ue001", "\ue001") for peer in agent.hears]
        between = re.split("[\ue000\ue001]", PROMPTS.user_text(agent.role, "\ue000", heard))
        programs = sum(names[peer] == PROGRAMMER for peer in agent.hears)
        assert len(between) == 2 + len(agent.hears) + programs
        assert all(piece.strip() for piece in between[:-1])


def test_exact_reads_what_the_wording_asks_for():
    for wording in [*PROMPTS.workers, PROMPTS.decision]:
        if wording.role != PROGRAMMER:
            assert Exact().predict(wording.system) == Strict().predict(wording.system.rpartition(": ")[2])
