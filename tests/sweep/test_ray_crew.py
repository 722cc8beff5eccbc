"""The Ray executor's own decisions, on a stand-in for Ray that runs each task when it is looked at."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from planned import EVERY, plans_of

from bcrbench.errors import UserError
from bcrbench.runs.runner import Cancelled
from bcrbench.sweep.executors.on_ray import Crew, _check_reachable, _check_room
from bcrbench.sweep.executors.order import Queue
from bcrbench.sweep.executors.ticket import Report, Ticket
from bcrbench.sweep.plan import Plan


class RayError(Exception):
    """As Ray's."""


class RayTaskError(RayError):
    """As Ray's: what a task raised."""


class TaskCancelledError(RayError):
    """As Ray's."""


class WorkerCrashedError(RayError):
    """As Ray's."""


class FakeRay:
    """Tasks are answered by condition: with a report, or an exception to raise."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError, TaskCancelledError=TaskCancelledError)

    def __init__(self, answers: dict[str, Report | Exception]) -> None:
        self.answers = answers
        self.options: list[dict[str, Any]] = []
        self.most = 0
        self.flying: dict[int, Ticket] = {}
        self.cancelled: set[int] = set()
        self.sent: list[str] = []

    def remote(self, **options: Any) -> Any:
        """A decorator that keeps the options."""
        self.options.append(options)
        return lambda function: SimpleNamespace(remote=self._send)

    def _send(self, data: bytes) -> int:
        ticket = msgspec.json.decode(data, type=Ticket)
        self.sent.append(ticket.condition)
        self.flying[len(self.sent)] = ticket
        self.most = max(self.most, len(self.flying))
        return len(self.sent)

    def wait(self, tasks: list[int], num_returns: int, timeout: float) -> tuple[list[int], list[int]]:
        """The oldest task has ended."""
        return tasks[:1], tasks[1:]

    def cancel(self, task: int) -> None:
        """Remember it."""
        self.cancelled.add(task)

    def get(self, task: int) -> bytes:
        """The task's answer."""
        ticket = self.flying.pop(task)
        answer = self.answers.get(ticket.condition, Report(log=__file__))
        if task in self.cancelled:
            raise TaskCancelledError
        if isinstance(answer, Exception):
            raise answer
        return msgspec.json.encode(answer)


def crew_of(plans: list[Plan], ray: FakeRay, **changes: Any) -> Crew:
    facts = {"workers": None, "gpus": 0.0, **changes}
    return Crew(ray, Queue(plans), facts["workers"], facts["gpus"], {"o": "o/.driver-x"})


def drive(crew: Crew) -> dict[str, str]:
    """Why each run that ended failed, by condition; empty for those that did not."""
    ends: dict[str, str] = {}
    while crew.busy():
        for _, end in crew.landed():
            ends[end.plan.spec.text] = end.why if end.log is None else ""
    return ends


ALL = list(EVERY.values())
MATCHED, KVCOMM = "random:match=0.2,gamma=0.3", "kvcomm:gamma=0.3"
TEXT = {text: made.spec.text for text, made in EVERY.items()}


@pytest.mark.parametrize("workers", [None, 1, 2])
def test_no_more_runs_at_once_than_workers(workers: int | None) -> None:
    ray = FakeRay({})
    ends = drive(crew_of(ALL, ray, workers=workers))
    assert ends == {made.spec.text: "" for made in ALL}
    assert ray.most <= (workers or len(ALL))
    assert ray.sent[0] == "dense"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Report(failed="out of memory"), "out of memory"),
        (WorkerCrashedError("gone"), "WorkerCrashedError"),
        (Cancelled(), "stopped"),  # by somebody else, more often than it is tried again
        (Report(log="/no/such/log"), "share"),
    ],
)
def test_a_failed_run_is_told_and_what_waits_for_it_is_not_sent(answer: Any, words: str) -> None:
    ray = FakeRay({TEXT[KVCOMM]: answer})
    crew = crew_of(ALL, ray)
    ends = drive(crew)
    assert words in ends[TEXT[KVCOMM]]
    assert TEXT[KVCOMM] in ends[TEXT[MATCHED]] and TEXT[MATCHED] not in ray.sent
    assert {text for text, why in ends.items() if not why} == set(TEXT.values()) - {TEXT[KVCOMM], TEXT[MATCHED]}
    assert not crew.stopped and not crew.mistake


def test_after_a_mistake_nothing_is_sent_and_running_ones_are_asked_to_stop() -> None:
    ray = FakeRay({"dense": Report(mistake="no such model")})
    crew = crew_of(ALL, ray, workers=2)
    assert drive(crew) == {}
    assert crew.mistake == "no such model"
    assert ray.sent == ["dense", TEXT["placebo"]] and ray.cancelled == {2}


def test_a_worker_without_the_package_is_a_mistake_of_one_line() -> None:
    crew = crew_of(
        ALL, FakeRay({"dense": ModuleNotFoundError("ray::carry()\n\nModuleNotFoundError: No module named 'x'")})
    )
    assert drive(crew) == {}
    assert crew.mistake.count("\n") == 0 and "No module named 'x'" in crew.mistake and "installed" in crew.mistake


def test_a_stop_lets_running_ones_end_and_sends_no_more() -> None:
    ray = FakeRay({})
    crew = crew_of(ALL, ray, workers=2)
    assert crew.busy()
    crew.stop()
    assert drive(crew) == {}
    assert crew.stopped and len(ray.sent) == 2 and ray.cancelled == {1, 2}


def test_an_error_of_ours_in_a_worker_is_raised_here() -> None:
    with pytest.raises(RayTaskError):
        drive(crew_of(ALL, FakeRay({"dense": RayTaskError("bug")})))


@pytest.mark.parametrize("gpus", [0.0, 0.5, 1.0])
def test_a_run_is_given_its_gpus_and_a_gpu_worker_ends_with_its_run(gpus: float) -> None:
    ray = FakeRay({})
    drive(crew_of(ALL, ray, gpus=gpus))
    [options] = ray.options
    assert options["num_gpus"] == gpus and options["max_retries"] > 0
    assert options["max_calls"] == (1 if gpus else 0)


def _planned(device: str) -> list[Plan]:
    return plans_of("o", "dense", device=device)


NODES = [{"Alive": True, "Resources": {"GPU": 2.0}}, {"Alive": False, "Resources": {"GPU": 8.0}}]


@pytest.mark.parametrize(("device", "gpus"), [("cuda", 0.0), ("cuda:1", 1.0), ("auto", 3.0)])
def test_gpus_that_no_run_would_get_are_a_mistake(device: str, gpus: float) -> None:
    said: list[str] = []
    with pytest.raises(UserError):
        _check_room(NODES, _planned(device), gpus, True, said.append)


@pytest.mark.parametrize(("device", "gpus"), [("cpu", 3.0), ("cuda", 2.0), ("auto", 0.5), ("auto", 0.0)])
def test_gpus_that_are_there_pass(device: str, gpus: float) -> None:
    said: list[str] = []
    _check_room(NODES, _planned(device), gpus, True, said.append)
    assert said == []


def test_a_cluster_that_may_grow_is_waited_for() -> None:
    said: list[str] = []
    _check_room(NODES, _planned("auto"), 3.0, False, said.append)
    assert len(said) == 1 and "3" in said[0] and "2" in said[0]


def test_an_address_at_which_nobody_answers_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        for good in (address, f"ray://{address}", "auto", None):
            _check_reachable(good)
    for wrong in (address, "there", "there:", ":80", "127.0.0.1:99999"):
        with pytest.raises(UserError, match="--address") as error:
            _check_reachable(wrong)
        assert wrong in str(error.value) and "expected" in str(error.value)


def test_a_log_that_is_there_is_the_runs_end() -> None:
    [end] = [end for _, end in _first(crew_of(ALL[:1], FakeRay({})))]
    assert end.log == Path(__file__)


def _first(crew: Crew) -> list[Any]:
    assert crew.busy()
    return list(crew.landed())
