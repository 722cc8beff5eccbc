"""Generated code on the whole way: not run without leave, run and graded with it, read from the log on a resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bcrbench.agents.request import Requests
from bcrbench.cli.main import main
from bcrbench.grading.sandbox import Evaluated, Judged, Sandbox
from bcrbench.runs.log import Log, read_log
from bcrbench.runs.schema import ItemRecord

SAID = "```python\ndef f(x):\n    return 2 * x\n```"
ALLOWED = "--allow-code-execution"


def row(number: int) -> dict[str, str]:
    """A task whose text is the shorter the later it comes, so that its segment can be predicted."""
    return {
        "task_id": f"T/{number}",
        "prompt": f'def f(x):\n    """Twice x. {"." * (40 - 5 * number)}\n    >>> f(2)\n    4\n    """\n',
        "entry_point": "f",
        "test": "def check(candidate):\n    assert candidate(3) == 6\n",
    }


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two workers on five tasks, who are all taken to have said the same right program."""
    data = tmp_path / "tasks.jsonl"
    data.write_text("".join(json.dumps(row(number)) + "\n" for number in range(5)))
    monkeypatch.setattr(Requests, "_text", lambda self, ids: SAID)
    return ["--task", "humaneval", "--data", str(data), "--agents", "2", "--max-new-tokens", "3",
            "--model", "random:tiny", "--out", str(tmp_path / "runs")]  # fmt: skip


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was run, in order; `evaluate` is how a sandbox is tried."""
    seen: list[str] = []
    for name in ("judge", "compare"):
        own = getattr(Sandbox, name)

        def watched(self: Sandbox, *args: Any, _own: Any = own, _name: str = name, **named: Any) -> Any:
            seen.append(_name)
            return _own(self, *args, **named)

        monkeypatch.setattr(Sandbox, name, watched)
    return seen


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return int(stop.value.code or 0)


def logs(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "runs").glob("*.jsonl"))


def only(tmp_path: Path) -> Log[ItemRecord]:
    (path,) = logs(tmp_path)
    return read_log(path)


def test_without_leave_code_is_logged_and_graded_later(
    cell: list[str], ran: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("reuse", *cell) == 0
    assert f"grade LOG {ALLOWED}" in capsys.readouterr().err
    log = only(tmp_path)
    assert (ran, log.run.tools) == ([], {})
    assert {item.outcome for item in log.items} == {"ungraded"}
    assert {call.feedback for item in log.items for call in item.calls} == {None}
    assert not [gate for item in log.items for call in item.calls for gate in call.gate if "condition" in gate.segment]
    assert command("grade", str(log.path)) == 2
    assert ALLOWED in capsys.readouterr().err
    assert command("grade", str(log.path), ALLOWED) == 0
    assert "sandbox: " in capsys.readouterr().err
    assert ran == ["judge"] * 5
    assert [grade.outcome for grade in only(tmp_path).grades] == ["correct"] * 5
    assert command("grade", str(log.path), ALLOWED) == 0
    assert len(ran) == 5


def test_with_leave_tools_run_and_outcomes_are_final(
    cell: list[str], ran: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("reuse", *cell, ALLOWED, "--gamma", "1.0") == 0
    assert "generated programs run in the sandbox: " in capsys.readouterr().err
    log = only(tmp_path)
    assert log.run.tools["code"]
    assert [item.outcome for item in log.items] == ["correct"] * 5
    assert ran == ["compare", "judge"] * 5
    for item in log.items:
        told = item.calls[0].feedback
        assert told is not None and (told.tool, told.outcome) == ("doctests", "ok")
        assert item.calls[1].feedback is None  # the designer's is not tested
        gated = ["condition_1" in {gate.segment for gate in call.gate} for call in item.calls]
        assert gated == [False, True, False]  # once, where it is first shown


def test_feedback_is_gated_anchored_and_predicted(cell: list[str], tmp_path: Path) -> None:
    assert command("reuse", *cell, ALLOWED, "--gamma", "1.0") == 0
    items = only(tmp_path).items
    gates = [gate for item in items for call in item.calls for gate in call.gate if gate.segment == "condition_1"]
    assert {gate.decision for gate in gates} == {"new", "sharable"}
    assert max(gate.anchors for gate in gates) >= 2
    reused = [call for item in items for call in item.calls[1:] if call.served == "reuse"]
    assert reused and all(call.rows.predicted for call in reused)
    assert command("reuse", *cell, ALLOWED, "--agents", "3", "--limit", "1") == 0
    (item,) = next(log.items for log in map(read_log, logs(tmp_path)) if len(log.items) == 1)
    assert [[gate.segment for gate in call.gate if "condition" in gate.segment] for call in item.calls] == [
        [], ["condition_1"], [], ["condition_3"],
    ]  # fmt: skip


def test_leave_makes_another_run_since_prompts_differ(cell: list[str], tmp_path: Path) -> None:
    assert command("prefill", *cell, "--limit", "1") == command("prefill", *cell, "--limit", "1", ALLOWED) == 0
    one, other = map(read_log, logs(tmp_path))
    assert one.run.fingerprint != other.run.fingerprint
    assert one.run.prompts["hash"] != other.run.prompts["hash"]


def test_a_resumed_run_runs_nothing_that_is_logged(
    cell: list[str], ran: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("reuse", *cell, ALLOWED, "--gamma", "1.0") == 0
    (path,) = logs(tmp_path)
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:4]))  # three items
    ran.clear()
    assert command("reuse", *cell, ALLOWED, "--gamma", "1.0") == 0
    assert ran == ["compare", "judge"] * 2
    again = path.read_bytes().splitlines(keepends=True)
    assert again[:4] == whole[:4]
    assert [_said(line) for line in again[4:6]] == [_said(line) for line in whole[4:6]]
    path.write_bytes(b"".join(whole[:-1]))  # all items, and no end
    for name in ("judge", "compare"):
        monkeypatch.setattr(Sandbox, name, None)
    assert command("reuse", *cell, ALLOWED, "--gamma", "1.0") == 0
    assert read_log(path).status == "complete"


def _said(line: bytes) -> Any:
    item = json.loads(line)
    return item["outcome"], item["pool_hash"], [(call["ids"], call["feedback"]) for call in item["calls"]]


def test_a_recipe_may_give_leave(cell: list[str], ran: list[str], tmp_path: Path) -> None:
    settings = dict(zip([name[2:].replace("-", "_") for name in cell[::2]], cell[1::2], strict=True))
    numbers = {name: int(value) for name, value in settings.items() if value.isdigit()}
    recipe = tmp_path / "mine.yaml"
    given = {**settings, **numbers, "limit": 2, "allow_code_execution": True}
    recipe.write_text(json.dumps({"settings": given, "conditions": ["dense", "kvcomm:gamma=1.0"]}))
    assert command("sweep", str(recipe)) == 0
    assert ran == ["compare", "judge"] * 4
    assert {item.outcome for path in logs(tmp_path) for item in read_log(path).items} == {"correct"}


def test_a_failure_of_the_sandbox_is_no_grade_and_fails_the_command(
    cell: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("reuse", *cell) == 0
    path = str(only(tmp_path).path)
    with monkeypatch.context() as broken:
        broken.setattr(Sandbox, "judge", lambda *_, **__: Judged("error:harness", "no child", 0.0, ""))
        assert command("grade", path, ALLOWED) == 1
    assert "no child" in capsys.readouterr().err
    assert only(tmp_path).grades == []
    assert command("grade", path, ALLOWED) == 0
    assert len(only(tmp_path).grades) == 5


def test_a_failure_of_the_sandbox_under_a_tool_stops_the_run_which_goes_on_later(
    cell: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own, count = Sandbox.compare, iter(range(100))

    def failing(self: Sandbox, *args: Any) -> Evaluated:
        broken = Evaluated("error:harness", "no child", (), 0.0, "")
        return broken if next(count) == 2 else own(self, *args)

    monkeypatch.setattr(Sandbox, "compare", failing)
    assert command("reuse", *cell, ALLOWED) == 1
    assert "no child" in capsys.readouterr().err
    assert (only(tmp_path).status, len(only(tmp_path).items)) == ("failed", 2)
    assert command("reuse", *cell, ALLOWED) == 0
    assert (only(tmp_path).status, len(only(tmp_path).items)) == ("complete", 5)


@pytest.mark.parametrize("leave", [[], [ALLOWED]])
@pytest.mark.parametrize("how", [["--tokens"], ["--only", "tokens"]])
def test_both_paths_prompts_are_compared_with_feedback_in_them(
    cell: list[str],
    leave: list[str],
    how: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.undo()  # the agents' own words
    assert command("verify", *cell[:-2], *leave, *how, "--limit", "2") == 0
    assert "agent 0: 2 of 2 prompts have the same ids" in capsys.readouterr().out


def test_what_is_planned_says_nothing_of_a_sandbox_and_opens_none(
    cell: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bcrbench.grading.sandbox.sandbox.open_sandbox", None)
    assert command("reuse", *cell, ALLOWED, "--dry-run") == 0
