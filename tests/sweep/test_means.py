"""A fingerprint changes with what tools and graders may use when, and only when, somebody uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bcrbench.settings import Settings
from bcrbench.sweep.plan import Cell, plan_cell

ROWS = {
    "gsm8k": {"question": "two and two?", "answer": "#### 4"},
    "mmlu": {"question": "which?", "choices": list("abcd"), "answer": "B"},
}


@pytest.fixture
def cell(tmp_path: Path) -> Any:
    """Plans a cell of a task, agents and settings."""
    pages = tmp_path / "pages.jsonl"
    pages.write_text(json.dumps({"title": "a", "text": "x"}) + "\n")

    def plan(task: str, agents: int, code: bool = False, look_up: bool = False) -> Cell:
        data = tmp_path / f"{task}.jsonl"
        if task in ROWS:
            data.write_text(json.dumps(ROWS[task]) + "\n")
        return plan_cell(
            Settings(
                task=task,
                data=str(data) if task in ROWS else None,
                agents=agents,
                allow_code_execution=code,
                retrieval=str(pages) if look_up else None,
            )
        )

    return plan


@pytest.mark.parametrize(
    ("task", "agents", "means"),
    [
        ("gsm8k", 2, {"look_up": True}),
        ("gsm8k", 2, {"code": True}),  # the Programming Expert is the third
        ("mmlu", 1, {"look_up": True}),  # the Wiki Searcher is the second
        ("mmlu", 3, {"code": True}),
        ("quotes", 3, {"code": True, "look_up": True}),
    ],
)
def test_what_nobody_uses_changes_nothing(cell: Any, task: str, agents: int, means: dict[str, bool]) -> None:
    plain, other = cell(task, agents), cell(task, agents, **means)
    assert (other.means, other.prompts) == (plain.means, plain.prompts) == ([False, None], plain.prompts)
    assert not other.runs_code


@pytest.mark.parametrize(
    ("task", "agents", "means"),
    [
        ("gsm8k", 3, {"code": True}),
        ("mmlu", 2, {"look_up": True}),
        ("humaneval", 1, {"code": True}),
    ],
)
def test_what_somebody_uses_is_another_run(cell: Any, task: str, agents: int, means: dict[str, bool]) -> None:
    plain, other = cell(task, agents), cell(task, agents, **means)
    assert other.means != plain.means
    assert any(other.means)
