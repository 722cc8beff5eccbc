"""Twins: a dense serving beside every reused call that changes nothing but the log's `twin`."""

from __future__ import annotations

import json
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from small_models import some_ids, twins

from bcrbench.cli.main import main
from bcrbench.engine.decode import greedy, most_likely
from bcrbench.engine.model import Runtime
from bcrbench.reuse.policies import KVComm
from bcrbench.reuse.twin import Twins
from bcrbench.runs.log import read_log
from bcrbench.runs.schema import Call, ItemRecord

TIMES = {"ms", "ttft_ms", "e2e_ms", "wall_s", "twin", "warm_up"}
CONDITIONS = [
    "kvcomm:gamma=1.0",
    "bcr-chunk:gamma=1.0,B=32",
    "opengate:theta=0.004",
    "bcr-single:gamma=1.0,select=coin,rho=0.05",
]
TOKENS = 5
SLOW = 1.0  # seconds; everything else that a call does takes less


def sweep(out: Path, *more: str, agents: int = 3, limit: int = 5, conditions: list[str] = CONDITIONS) -> None:
    """CopyMachine on a tiny model."""
    named = [word for condition in conditions for word in ("--conditions", condition)]
    shape = ["--symbols", "9", "--model", "random:tiny", "--agents", str(agents), "--limit", str(limit)]
    run(["sweep", *shape, "--max-new-tokens", str(TOKENS), *named, "--out", str(out), *more])


def run(words: list[str]) -> None:
    """The command line, which has to end well."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 0


def items(folder: Path, condition: str) -> list[ItemRecord]:
    """The items of a condition's log."""
    logs = [read_log(path) for path in folder.glob("*.jsonl")]
    [log] = [log for log in logs if log.run.condition.startswith(condition.partition(":")[0])]
    return list(log.items)


def calls(folder: Path, condition: str) -> list[Call]:
    return [call for item in items(folder, condition) for call in item.calls]


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if key not in TIMES}
    return [timeless(part) for part in value] if isinstance(value, list) else value


def records(folder: Path, condition: str) -> list[Any]:
    """A condition's items without what times and twins are."""
    paths = [path for path in folder.glob("*.jsonl") if f".{condition.partition(':')[0]}+" in path.name]
    [path] = paths
    return [timeless(json.loads(line)) for line in path.read_text().splitlines()[1:-1]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("twins")
    sweep(out)
    return out


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("alone")
    sweep(out, "--no-twins")
    return out


every = pytest.mark.parametrize("condition", CONDITIONS)


@every
def test_a_twin_changes_no_item(condition: str, folder: Path, without: Path) -> None:
    """Ids, pool hashes and streams of a run with twins are those of a run without."""
    assert records(folder, condition) == records(without, condition)
    assert not any(call.twin or call.warm_up for call in calls(without, condition))


@every
def test_reused_calls_and_no_others_have_a_twin_of_the_same_length(condition: str, folder: Path) -> None:
    made = calls(folder, condition)
    assert {call.served for call in made} == {"dense", "reuse"}
    assert [call.twin is not None for call in made] == [call.served == "reuse" for call in made]
    for call in made:
        assert len(call.ids) == TOKENS
        if call.twin is not None:
            assert call.twin.tokens == TOKENS
            assert 0 < call.twin.ttft_ms < call.twin.e2e_ms
            assert call.twin.ms.first_token and call.twin.ms.decode
            assert call.twin.ms.assemble == call.twin.ms.repair == call.twin.ms.response == 0


@every
def test_the_order_alternates_for_each_agent_and_between_neighbours(condition: str, folder: Path) -> None:
    served = [call for call in calls(folder, condition) if call.twin is not None]
    assert len(served) > 3
    for agent in {call.agent for call in served}:
        firsts = [call.twin.first for call in served if call.agent == agent and call.twin]
        assert firsts == [firsts[0] ^ (number % 2 == 1) for number in range(len(firsts))]
    starts = {agent: next(c.twin.first for c in served if c.agent == agent and c.twin) for agent in ("1", "2")}
    assert starts == {"1": True, "2": False}


@every
def test_the_first_reused_calls_are_warm_ups_and_counted(condition: str, folder: Path) -> None:
    reused = [call.warm_up for call in calls(folder, condition) if call.served == "reuse"]
    assert reused == [number < 2 for number in range(len(reused))]
    assert not any(call.warm_up for call in calls(folder, condition) if call.served == "dense")
    [log] = [found for found in map(read_log, folder.glob("*.jsonl")) if found.run.condition.startswith(condition[:9])]
    assert log.end is not None
    assert (log.end.twins, log.end.warm_ups, log.end.reused) == (len(reused), 2, len(reused))
    assert (log.run.resolved["twins"], log.run.resolved["warm_up"]) == (True, 2)
    assert log.run.items["symbols"] == 9
    assert log.run.prompts["spelling"] == "AB"


def test_a_twin_is_a_dense_run_of_the_same_prompt(folder: Path) -> None:
    """What it generates is not logged, so the server is asked."""
    runtime = twins("llama3").runtime
    ids = some_ids(21, 4)
    cache = runtime.new_cache(40)
    first = most_likely(runtime.run(ids, range(len(ids)), cache))
    expected = greedy(runtime, cache, [first], len(ids), 8, frozenset()).ids
    made = Twins(runtime, KVComm(), runtime.new_cache(0))
    for known, turn in ((True, 0), (False, 0), (True, 1)):
        made.turns["1"] = turn
        made.before("1", ids, 8, known)
        record = made.after("1", ids, 8)
        assert made._begun == expected
        assert (record.tokens, record.first) == (8, turn == 0)


def test_a_twin_leaves_its_time_out_of_the_call_and_the_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*args: Any) -> Any:
        sleep(SLOW)
        return greedy(*args)

    monkeypatch.setattr("bcrbench.reuse.twin.greedy", slow)
    sweep(tmp_path, conditions=CONDITIONS[:1], limit=3, agents=2)
    [reused] = [item for item in items(tmp_path, "kvcomm") if item.calls[0].served == "reuse"]
    assert {call.twin.first for call in reused.calls if call.twin} == {True, False}
    for call in reused.calls:
        assert call.twin is not None and call.twin.e2e_ms > 1000 * SLOW
        assert call.e2e_ms < 1000 * SLOW
        assert sum(getattr(call.ms, name) for name in call.ms.__struct_fields__) <= call.e2e_ms + 1
    assert reused.wall_s < SLOW


def test_no_token_ends_an_answer_of_fixed_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every token is a stop token: another task's answers are one token long."""
    monkeypatch.setattr(Runtime, "stop_ids", lambda self: frozenset(range(320)))
    sweep(tmp_path, conditions=CONDITIONS[:1], limit=3)
    made = calls(tmp_path, "kvcomm")
    assert {(len(call.ids), call.finish) for call in made} == {(TOKENS, "length")}
    assert {call.twin.tokens for call in made if call.twin} == {TOKENS}
    run(["prefill", "--model", "random:tiny", "--limit", "1", "--out", str(tmp_path)])
    assert {(len(call.ids), call.finish) for call in calls(tmp_path, "dense")} == {(1, "stop")}


def test_warm_ups_are_as_many_as_asked_for(tmp_path: Path) -> None:
    sweep(tmp_path, "--warm-up", "4", conditions=CONDITIONS[:1])
    assert sum(call.warm_up for call in calls(tmp_path, "kvcomm")) == 4


def test_another_task_may_have_twins_of_its_answers_lengths(tmp_path: Path) -> None:
    words = [
        "--model",
        "random:tiny",
        "--limit",
        "12",
        "--max-new-tokens",
        "6",
        "--agents",
        "2",
        "--out",
        str(tmp_path),
    ]
    run(["reuse", "--gamma", "1.0", "--twins", *words])
    reused = [call for call in calls(tmp_path, "kvcomm") if call.served == "reuse"]
    assert reused and all(call.twin and call.twin.tokens == len(call.ids) for call in reused)


@every
def test_a_killed_run_resumes_with_its_twins(condition: str, folder: Path, tmp_path: Path) -> None:
    """Cut behind an odd number of reused calls, warm-ups among them: turns and warm-ups go on where they were."""
    name = condition.partition(":")[0]
    [path] = [path for path in folder.glob("*.jsonl") if f".{name}+" in path.name]
    lines = path.read_text().splitlines(keepends=True)
    (tmp_path / path.name).write_text("".join(lines[:4]))
    sweep(tmp_path, "--conditions", condition, conditions=[])
    again = (tmp_path / path.name).read_text().splitlines(keepends=True)
    assert again[1:4] == lines[1:4], "what was logged stays, twins and times included"
    assert records(tmp_path, condition) == records(folder, condition)
    turns = [[call.twin and call.twin.first for call in calls(where, condition)] for where in (tmp_path, folder)]
    assert turns[0] == turns[1]
    warm = [[call.warm_up for call in calls(where, condition)] for where in (tmp_path, folder)]
    assert warm[0] == warm[1]


def test_answers_that_do_not_fit_are_told_before_anything_is_generated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sweep", "--symbols", "30000", "--gamma", "1.0", "--model", "random:tiny", "--agents", "5", "--limit", "1"]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--out", str(tmp_path / "runs")])
    assert stop.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "agent 5's prompt and answer have" in last and "expected at most 32768" in last
    assert list((tmp_path / "runs").glob("*")) == []
