"""Executors without Ray: what waits for what, plans as data, and what becomes of runs that fail."""

from __future__ import annotations

import ast
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planned import EVERY, POOL, plans_of, records

from bcrbench.cli.main import main
from bcrbench.errors import UserError
from bcrbench.runs.lock import WriteLock
from bcrbench.sweep.executors import carried, checked
from bcrbench.sweep.executors.base import Ended, Where
from bcrbench.sweep.executors.carried import carry
from bcrbench.sweep.executors.local import run as run_local
from bcrbench.sweep.executors.order import Queue
from bcrbench.sweep.executors.ticket import Report, Ticket, issue, replan
from bcrbench.sweep.executors.view import GrowingLog, View
from bcrbench.sweep.plan import Plan

ROOT = Path(__file__).parents[2]


def provider(text: str) -> str | None:
    """The condition that one of POOL is matched to."""
    if text.startswith("cacheblend"):
        return text.partition("reuse:")[2]
    return f"kvcomm:gamma={text.rpartition('=')[2]}" if text.startswith("random") else None


@given(order=st.permutations(POOL), dice=st.randoms(use_true_random=False), width=st.integers(1, 4))
def test_a_run_starts_after_what_it_is_matched_to(order: list[str], dice: Any, width: int) -> None:
    queue, names = Queue([EVERY[text] for text in order]), {id(made): text for text, made in EVERY.items()}
    flying: list[Plan] = []
    started: list[str] = []
    done: list[str] = []
    while True:
        while len(flying) < width and (taken := queue.take()) is not None:
            needed = provider(names[id(taken)])
            assert needed is None or needed in done, f"{names[id(taken)]} before {needed}"
            flying.append(taken)
            started.append(names[id(taken)])
        if not flying:
            break
        end = flying.pop(dice.randrange(len(flying)))
        queue.ended(Ended(end, Path("log")))
        done.append(names[id(end)])
    assert sorted(started) == sorted(POOL)
    free = [text for text in order if provider(text) is None]
    assert [text for text in started if text in free] == free, "runs that wait for nothing keep their order"


def test_what_waits_for_a_failed_run_is_not_run() -> None:
    chosen = [EVERY[text] for text in ("kvcomm:gamma=0.3", "random:match=0.2,gamma=0.3", "random:match=0.2,gamma=0.7")]
    queue = Queue(chosen)
    first = queue.take()
    assert first is chosen[0]
    queue.ended(Ended(first, why="broke"))
    taken = [queue.take(), queue.take()]
    assert taken == chosen[1:]
    lost = queue.lost(chosen[1])
    assert lost is not None and "kvcomm:gamma=0.3" in lost.why and "failed" in lost.why
    assert queue.lost(chosen[2]) is None, "no run of its gamma is planned: an earlier log may serve"


def test_a_run_matched_to_a_log_waits_for_the_runs_of_that_folder(tmp_path: Path) -> None:
    log = tmp_path / "runs" / "some.jsonl"
    log.parent.mkdir()
    log.touch()
    matched, kvcomm = plans_of(log.parent, f"cacheblend:match=reuse:{log}", "kvcomm:gamma=0.3")
    [elsewhere] = plans_of(tmp_path / "other", "dense")
    queue = Queue([matched, elsewhere, kvcomm])
    assert [queue.take(), queue.take(), queue.take()] == [elsewhere, kvcomm, None]
    queue.ended(Ended(kvcomm, log))
    assert queue.take() is matched


def test_two_plans_of_one_log_follow_each_other() -> None:
    first, second = plans_of("o", "dense"), plans_of("o", "dense")
    queue = Queue([*first, *second])
    assert queue.take() is first[0]
    assert queue.take() is None
    queue.ended(Ended(first[0], Path("log")))
    assert queue.take() is second[0]


@settings(max_examples=25)
@given(
    condition=st.sampled_from(POOL),
    limit=st.integers(1, 5),
    agents=st.integers(1, 3),
    seed=st.integers(0, 9),
    topology=st.sampled_from(["full", "chain"]),
)
def test_a_plan_travels_as_data(condition: str, limit: int, agents: int, seed: int, topology: str) -> None:
    [made] = plans_of("o", condition, limit=limit, agents=agents, seed=seed, topology=topology)
    ticket = issue(made, "/somewhere", "o/.driver-1")
    sent = msgspec.json.decode(msgspec.json.encode(ticket), type=Ticket)
    assert sent == ticket
    again = replan(sent)
    assert again.spec == made.spec and again.given == made.given
    assert again.cell.settings == made.cell.settings
    assert [item.hash for item in again.cell.items] == [item.hash for item in made.cell.items]
    assert again.cell.agents == made.cell.agents and again.cell.max_new_tokens == made.cell.max_new_tokens


FACTS = sorted(issue(EVERY["dense"], "/").facts)


@pytest.mark.parametrize("name", FACTS)
def test_a_worker_refuses_another_plan_than_the_drivers(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    [made] = plans_of("o", "dense")
    ticket = issue(made, str(tmp_path))
    other = msgspec.structs.replace(ticket, facts={**ticket.facts, name: "other"})
    report = msgspec.json.decode(carry(msgspec.json.encode(other)), type=Report)
    assert report.log is None
    assert name in report.mistake and "other" in report.mistake and "dense" in report.mistake
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_does_not_see_the_drivers_files_says_so(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    [made] = plans_of("o", "dense")
    for folder, marker, word in ((tmp_path / "gone", "", "gone"), (tmp_path, "o/.driver-x", "--out o")):
        report = msgspec.json.decode(carry(msgspec.json.encode(issue(made, str(folder), marker))), type=Report)
        assert report.log is None and word in report.mistake and "share" in report.mistake
    assert list(tmp_path.iterdir()) == []


def test_a_carried_run_equals_the_local_executors(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    [here] = plans_of("here", "kvcomm:gamma=1.0")
    [there] = plans_of("there", "kvcomm:gamma=1.0")
    [end] = run_local([here], Where(), lambda line: None)
    report = msgspec.json.decode(carry(msgspec.json.encode(issue(there, str(tmp_path)))), type=Report)
    assert end.log is not None and report.log is not None, report
    assert records(Path(report.log)) == records(end.log)
    assert any("2 items" in line for line in report.said)


def test_a_worker_waits_for_a_lock_that_is_given_back(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    [made] = plans_of("o", "dense")
    ticket = msgspec.json.encode(issue(made, str(tmp_path)))
    first = msgspec.json.decode(carry(ticket), type=Report)
    assert first.log is not None
    held = WriteLock(Path(first.log))
    monkeypatch.setattr(carried, "LOCK_WAIT_S", 0.0)
    assert "is being written by process" in msgspec.json.decode(carry(ticket), type=Report).failed
    monkeypatch.setattr(carried, "LOCK_WAIT_S", 60.0)
    begin = time.monotonic()
    threading.Timer(0.3, held.release).start()
    report = msgspec.json.decode(carry(ticket), type=Report)
    assert report.log == first.log and time.monotonic() - begin >= 0.3


FAILS = "bcr-single:gamma=1.0"  # on one item nothing is reused, so its repair never engages


@pytest.fixture
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing Ray raises, as where it is not installed."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)


@pytest.mark.usefixtures("no_ray")
def test_a_failing_run_does_not_stop_the_rest(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["sweep", "--model", "random:tiny", "--limit", "1", "--max-new-tokens", "4", "--agents", "2"]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--conditions", FAILS, "--conditions", "dense", "--conditions", "placebo"])
    out, err = capsys.readouterr()
    assert stop.value.code == 1
    assert [Path(line).name.split(".")[1] for line in out.splitlines()] == ["dense", "placebo"]
    last = err.splitlines()[-1]
    assert "1 of 3 runs failed" in last and "bcr-single" in last and "never engaged" in last


@pytest.mark.usefixtures("no_ray")
def test_without_ray_its_executor_says_what_to_install(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["sweep", "--model", "random:tiny", "--limit", "1", "--executor", "ray"])
    out, err = capsys.readouterr()
    assert stop.value.code == 2 and out == ""
    assert err.count("\n") == 1 and "pip install 'bcrbench[ray]'" in err
    assert list(tmp_path.iterdir()) == []


def test_ray_is_imported_by_its_executor_alone_and_only_when_it_runs() -> None:
    found = []
    for path in (ROOT / "bcrbench").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for part in ast.walk(node)}
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] == "ray" for name in names):
                found.append((path.name, id(node) in inside))
    assert found and set(found) == {("on_ray.py", True)}


WRONG = [
    (Where("lokal"), ["executor", "'lokal'", "'local'", "ray"]),
    (Where("local", workers=2), ["--workers 2", "local"]),
    (Where("local", num_gpus=0.5), ["--num-gpus 0.5", "local"]),
    (Where("ray", address=""), ["--address ''", "auto"]),
    (Where("ray", workers=0), ["--workers 0", "1 or more"]),
    (Where("ray", num_gpus=-1), ["--num-gpus -1", "expected"]),
    (Where("ray", num_gpus=1.5), ["--num-gpus 1.5", "whole"]),
    (Where("ray", num_gpus=float("nan")), ["--num-gpus nan", "expected"]),
    (Where("ray", num_gpus=float("inf")), ["--num-gpus inf", "expected"]),
]


@pytest.mark.parametrize(("where", "words"), WRONG)
def test_what_an_executor_cannot_use_is_told(where: Where, words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        checked(where)
    assert all(word in str(error.value) for word in words), error.value


@given(share=st.one_of(st.floats(0, 1), st.integers(2, 8).map(float), st.none()))
def test_a_share_of_a_gpu_or_whole_ones_pass(share: float | None) -> None:
    where = Where("ray", "auto", share, 3)
    assert checked(where) is where


LINES = st.lists(st.sampled_from([b'{"record":"item","x":1}\n', b'{"record":"grading"}\n']), max_size=8)


@given(lines=LINES, cuts=st.lists(st.integers(0, 400), max_size=6), dropped=st.integers(0, 3))
def test_a_growing_log_is_counted_as_it_grows(
    tmp_path_factory: Any, lines: list[bytes], cuts: Any, dropped: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "x.jsonl"
    whole = b"".join([b'{"record":"run","given":{"task":"quotes"}}\n', *lines])
    log = GrowingLog(path)
    for end in [*sorted(cuts), len(whole)]:
        path.write_bytes(whole[:end])
        log.look()
        assert log.items == whole[: whole[:end].rfind(b"\n") + 1].count(b'"item"')
    assert log.given == {"task": "quotes"}
    shorter = b"".join([b'{"record":"run","given":{"task":"quotes"}}\n', *lines[: max(0, len(lines) - dropped)]])
    path.write_bytes(shorter)  # as when the end record of a stopped run is taken out
    log.look()
    assert log.items == shorter.count(b'"item"')


def test_the_view_adds_up_runs_that_ended_and_logs_that_are_being_written(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("bcrbench.sweep.executors.view.EVERY_S", 0.0)
    done, running, waiting = plans_of(tmp_path, "dense", "kvcomm:gamma=0.3", "kvcomm:gamma=0.7")
    head = {"record": "run", "given": running.given}
    for name, lines in (("a.jsonl", 1), ("b.jsonl", 2)):
        (tmp_path / name).write_text(json.dumps(head) + "\n" + '{"record":"item"}\n' * lines)
    (tmp_path / "a.jsonl.lock").touch()  # b is an earlier one, written by nobody
    said: list[str] = []
    with View([done, running, waiting], said.append) as view:
        view.end(Ended(done, tmp_path / "c.jsonl"))
        view.show([running, waiting])
    assert said == ["1/3 runs, 3/6 items: kvcomm:gamma=0.3 1/2"]


def test_on_a_terminal_one_bar_counts_the_items_of_all_runs(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    done, running = plans_of(tmp_path, "dense", "kvcomm:gamma=0.3")
    head = {"record": "run", "given": running.given}
    (tmp_path / "a.jsonl").write_text(json.dumps(head) + "\n" + '{"record":"item"}\n')
    (tmp_path / "a.jsonl.lock").touch()
    said: list[str] = []
    with View([done, running], said.append) as view:
        view.end(Ended(done, tmp_path / "c.jsonl"))
        view.show([running])
        assert (view.bar.n, view.bar.total) == (3, 4)
        assert "kvcomm:gamma=0.3 1/2" in view.bar.postfix
    assert said == []
