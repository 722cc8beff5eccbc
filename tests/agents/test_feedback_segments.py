"""A tool's feedback as a shared segment: who is shown it, how reuse treats it, and that a replay runs no tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bcrbench.cli.main import main
from bcrbench.runs.log import read_log
from bcrbench.runs.schema import ItemRecord
from bcrbench.tools.pages import LookUp

SAID = "see @alpha@"


@pytest.fixture
def cell(tmp_path: Path) -> list[str]:
    """Two MMLU workers on eight questions, the later ones shorter, so that segments can be predicted."""
    rows = [
        {
            "question": "Which? " + "x" * (40 - 4 * number),
            "choices": ["a", "b", "c", "d"],
            "answer": "B",
            "id": f"q{number}",
        }
        for number in range(8)
    ]
    data = tmp_path / "mmlu.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pages = tmp_path / "pages.jsonl"
    pages.write_text(json.dumps({"title": "alpha", "text": "the first letter"}) + "\n")
    return ["--task", "mmlu", "--data", str(data), "--agents", "2", "--max-new-tokens", "3", "--model", "random:tiny",
            "--out", str(tmp_path / "runs"), "--retrieval", str(pages)]  # fmt: skip


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every response asks for the recorded page; returns the questions that the tool was run for."""
    seen: list[str] = []
    own = LookUp.feedback

    def feedback(self: LookUp, said: str, question: str, kit: Any) -> Any:
        seen.append(question)
        return own(self, SAID, question, kit)

    monkeypatch.setattr(LookUp, "feedback", feedback)
    return seen


def run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert not stop.value.code


def items(folder: Path, beginning: str) -> list[ItemRecord]:
    (path,) = (path for path in folder.glob("*.jsonl") if path.name.startswith(beginning))
    return read_log(path).items


def test_feedback_is_a_segment_of_its_own_with_gate_and_prediction(
    cell: list[str], tool: list[str], tmp_path: Path
) -> None:
    run("reuse", *cell, "--gamma", "1.0")
    logged = items(tmp_path / "runs", "mmlu.kvcomm")
    assert len(tool) == 8
    for item in logged:
        expert, searcher, decides = item.calls
        assert expert.feedback is not None
        assert expert.feedback.text == "alpha: the first letter"
        assert searcher.feedback is None
        # The deciding node hears the expert as well, but is not shown what was found.
        assert "condition_1" in {gate.segment for gate in searcher.gate}
        assert "condition_1" not in {gate.segment for gate in [*expert.gate, *decides.gate]}
    later = [gate for item in logged[2:] for gate in item.calls[1].gate if gate.segment == "condition_1"]
    assert {gate.decision for gate in later} == {"sharable"}
    assert any(item.calls[1].served == "reuse" for item in logged)


def test_the_same_prompt_is_prefilled_whole_by_dense(cell: list[str], tool: list[str], tmp_path: Path) -> None:
    run("sweep", *cell, "--limit", "2", "--conditions", "dense:tokens=merged", "--conditions", "kvcomm:gamma=1.0")
    one = items(tmp_path / "runs", "mmlu.dense")
    other = items(tmp_path / "runs", "mmlu.kvcomm")
    assert [call.prompt_hash for item in one for call in item.calls] == [
        call.prompt_hash for item in other for call in item.calls
    ]


def test_without_pages_nobody_is_shown_anything(cell: list[str], tool: list[str], tmp_path: Path) -> None:
    run("reuse", *cell[:-2], "--limit", "1")
    (item,) = items(tmp_path / "runs", "mmlu.kvcomm")
    assert (tool, [call.feedback for call in item.calls]) == ([], [None] * 3)


def test_a_resumed_run_reads_feedback_from_the_log(
    cell: list[str], tool: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("reuse", *cell, "--gamma", "1.0")
    (path,) = (tmp_path / "runs").glob("*.jsonl")
    whole = [json.loads(line) for line in path.read_bytes().splitlines()]
    path.write_bytes(b"".join(line + b"\n" for line in path.read_bytes().splitlines()[:6]))  # five items
    tool.clear()
    run("reuse", *cell, "--gamma", "1.0")
    assert len(tool) == 3
    again = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [[call["ids"] for call in item["calls"]] for item in again[1:-1]] == [
        [call["ids"] for call in item["calls"]] for item in whole[1:-1]
    ]
