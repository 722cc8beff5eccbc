"""Recorded pages and their look-up: what a query finds, what a file may not hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrbench.errors import UserError
from bcrbench.grading.kit import Kit
from bcrbench.tools.pages import MAX_CHARACTERS, MAX_QUERIES, LookUp
from bcrbench.tools.recorded import Page, Pages, normal, read_pages


def kit(**pages: str) -> Kit:
    by_title = {normal(title): Page(title=title, text=text) for title, text in pages.items()}
    return Kit(pages=Pages("hash", by_title))


def write(tmp_path: Path, *rows: Any) -> Path:
    path = tmp_path / "pages.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_queries_find_their_pages_in_order_and_once() -> None:
    found = LookUp().feedback("see @Beta@, @@alpha@@ and @beta@ again", "q", kit(alpha="first", beta="second"))
    assert found.text == "beta: second\nalpha: first"
    assert found.outcome == "ok"


@pytest.mark.parametrize(
    ("said", "outcome"),
    [("no look-up", "no-query"), ("@gamma@", "nothing-found"), ("a@b", "no-query"), ("", "no-query")],
)
def test_without_a_page_the_feedback_says_so(said: str, outcome: str) -> None:
    found = LookUp().feedback(said, "q", kit(alpha="first"))
    assert (found.outcome, bool(found.text.strip())) == (outcome, True)


@given(st.text())
def test_any_response_gives_a_feedback_of_bounded_length(said: str) -> None:
    found = LookUp().feedback(said, "q", kit(a="x" * 2 * MAX_CHARACTERS, b="y"))
    assert 0 < len(found.text) <= MAX_CHARACTERS


def test_only_so_many_queries_are_looked_up() -> None:
    names = [f"p{number}" for number in range(MAX_QUERIES + 3)]
    said = " ".join(f"@{name}@" for name in names)
    assert len(LookUp().feedback(said, "q", kit(**dict.fromkeys(names, "text"))).text.splitlines()) == MAX_QUERIES


def test_pages_are_read_with_their_aliases_and_any_spelling_of_case_and_space(tmp_path: Path) -> None:
    path = write(tmp_path, {"title": "Photo  Synthesis", "text": "light", "aliases": ["PS"]})
    pages = read_pages(path)
    assert pages.find(" photo SYNTHESIS ") == pages.find("ps") == Page("Photo  Synthesis", "light", ["PS"])
    assert pages.find("photosynthesis") is None


def test_the_hash_is_the_files(tmp_path: Path) -> None:
    one = read_pages(write(tmp_path, {"title": "a", "text": "x"}))
    other = read_pages(write(tmp_path, {"title": "a", "text": "y"}))
    assert one.hash != other.hash
    assert read_pages(write(tmp_path, {"title": "a", "text": "x"})) == one


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"title": "a"}], [":1", "text"]),
        ([{"title": "a", "text": "x"}, {"title": "A ", "text": "y"}], [":2", "title", "twice"]),
        ([{"title": " ", "text": "x"}], [":1", "title"]),
        ([{"title": "a", "text": "x", "url": "u"}], [":1", "url"]),
        (["a"], [":1", "object"]),
        ([], ["no pages"]),
    ],
)
def test_a_bad_file_is_refused_with_line_and_field(tmp_path: Path, rows: list[Any], words: list[str]) -> None:
    path = write(tmp_path, *rows)
    with pytest.raises(UserError) as caught:
        read_pages(path)
    for word in [str(path), *words]:
        assert word in str(caught.value)


def test_a_missing_file_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--retrieval .*none.jsonl: cannot be read"):
        read_pages(tmp_path / "none.jsonl")
