"""Raw answers of every kind with the right value for each grader, and what holds of any text."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bcrbench.tasks import TASKS
from bcrbench.tasks.base import Grader

DATA = Path(__file__).parents[1] / "data"


def table(task: str) -> dict:
    return yaml.safe_load((DATA / f"regrade_{task}.yaml").read_text(encoding="utf-8"))


TABLES = {task: table(task) for task in ("gsm8k", "mmlu")}
GRADERS: dict[str, dict[str, Grader]] = {
    task: {name: TASKS.get(task)().graders[name] for name in TABLES[task]["graders"]} for task in TABLES
}
ROWS = [
    pytest.param(task, grader, row["text"], expected, id=f"{task}-{grader}-{number}")
    for task, rows in TABLES.items()
    for number, row in enumerate(rows["answers"])
    for grader, expected in zip(rows["graders"], row["reads"], strict=True)
]


@pytest.mark.parametrize(("task", "grader", "text", "expected"), ROWS)
def test_each_grader_reads_what_its_rule_says(task: str, grader: str, text: str, expected: str | None) -> None:
    assert GRADERS[task][grader].predict(text) == expected


@pytest.mark.parametrize("task", TABLES)
def test_the_tables_are_long_and_hold_each_answer_once(task: str) -> None:
    texts = [row["text"] for row in TABLES[task]["answers"]]
    assert len(texts) >= 60
    assert len(set(texts)) == len(texts)


SEEN = [row["text"] for rows in TABLES.values() for row in rows["answers"]]
PIECES = ["A", "B", "c", "(d)", "b)", "the answer is ", "Answer: ", "option ", " and ", "\n", ".", ",", "'s", "-",
          "=18", "**", "$\\boxed{", "}", "output is: ", "because", "Ｂ", "°", "####", "1,000"]  # fmt: skip
TEXTS = st.one_of(
    st.text(),
    st.text(alphabet="ABCDabcd ().,'-*\nis:answer", max_size=60),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.sampled_from(SEEN),
)
EVERY = [pytest.param(grader, id=f"{task}-{name}") for task in GRADERS for name, grader in GRADERS[task].items()]


@pytest.mark.parametrize("grader", EVERY)
@given(text=TEXTS, blanks=st.text(alphabet=" \n\t\r", max_size=5))
def test_blanks_at_the_end_change_nothing(grader: Grader, text: str, blanks: str) -> None:
    assert grader.predict(text + blanks) == grader.predict(text)


@pytest.mark.parametrize("grader", EVERY)
@given(text=TEXTS)
def test_a_prediction_equals_itself_and_none_equals_nothing(grader: Grader, text: str) -> None:
    found = grader.predict(text)
    gold = "A" if grader in GRADERS["mmlu"].values() else "1"
    assert not grader.correct(None, gold)
    if found is not None:
        assert grader.correct(found, found[0] if len(found) > 1 and found.isalpha() else found)


@given(TEXTS)
def test_letters_are_single_capitals_and_stricter_graders_agree_with_laxer_ones(text: str) -> None:
    found = {name: grader.predict(text) for name, grader in GRADERS["mmlu"].items()}
    assert set(found.values()) <= {None, *"ABCD"} | {found["letter-substring"]}
    first, last, single = found["first-letter"], found["last-letter"], found["single-letter"]
    assert (first is None) == (last is None)
    if single is not None:
        assert first == last == single
    if found["answer-is"] is not None:
        assert first is not None


@given(TEXTS)
def test_the_released_letters_are_those_behind_its_first_mark(text: str) -> None:
    found = GRADERS["mmlu"]["letter-substring"].predict(text)
    tail = text[text.index("output is: ") + 11 :] if "output is: " in text else text
    assert set(found or "") == set(tail) & set("ABCD")
    assert list(found or "") == sorted(found or "")
    for gold in "ABCD":
        assert GRADERS["mmlu"]["letter-substring"].correct(found, gold) == (gold in tail)


@given(st.sampled_from("ABCD"), st.sampled_from(["", "**", "(", "'", '"', " ", "_", "\n"]))
def test_one_letter_in_any_dress_is_read_by_all_that_want_no_words(letter: str, dress: str) -> None:
    text = dress + letter + dress.replace("(", ")")
    for name in ("letter-substring", "first-letter", "last-letter", "single-letter"):
        assert GRADERS["mmlu"][name].predict(text) == letter


@given(st.sampled_from("ABCD"), st.sampled_from("ABCD"), TEXTS)
def test_a_closing_statement_is_the_answer_whatever_stands_before(letter: str, other: str, before: str) -> None:
    text = f"{before}\n{other}? The answer is ({letter.lower()})."
    assert GRADERS["mmlu"]["answer-is"].predict(text) == letter == GRADERS["mmlu"]["last-letter"].predict(text)


@pytest.mark.parametrize("piece", ["answer is ", "option ", "A ", "(", "*", " ", "answer:", "\n", "A.", "a", "\\text"])
def test_a_model_in_a_loop_is_graded_at_once(piece: str) -> None:
    for grader in GRADERS["mmlu"].values():
        assert grader.predict(piece * 4000) in {None, "A"}


@pytest.mark.parametrize("name", ["first-letter", "last-letter", "answer-is", "single-letter"])
def test_stricter_graders_want_the_gold_letter_itself(name: str) -> None:
    grader = GRADERS["mmlu"][name]
    assert grader.correct("B", "B")
    assert not grader.correct("A", "B")
    assert not grader.correct("AB", "B")
