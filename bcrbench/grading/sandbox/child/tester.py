"""The tester: run the trusted tests against a stand-in for the candidate's function, and say the verdict.

The candidate runs elsewhere and is reached by two pipes of plain data. It has neither the tests, nor the pipe of the
verdict, nor the secret that a verdict must carry.
"""

from __future__ import annotations

import json
import os
from typing import Any, NoReturn

from bcrbench.grading.sandbox.child import confine, wire
from bcrbench.grading.sandbox.child.setup import Setup

Verdict = tuple[str, str]
_OURS = (NameError, ImportError, SyntaxError)  # a candidate's values cannot bring these about
_NOT_AN_ANSWER = (wire.Malformed, RecursionError, KeyError, TypeError, ValueError, AttributeError)  # by opening it


class Stop(BaseException):
    """The tests cannot go on, whatever they catch."""


class Candidate:
    """Calls the generated function in its own process."""

    def __init__(self, setup: Setup) -> None:
        self._read, self._write = setup.read_fd, setup.write_fd
        self.raised: BaseException | None = None
        self.stopped: Verdict | None = None

    def load(self) -> Verdict | None:
        """Wait until the program has run; gives the verdict if it failed to."""
        try:
            reply = self._receive()
            if "raised" in reply:
                return _judge_error(wire.decode_error(reply["raised"]))
            return None if reply == {"loaded": True} else ("wrong", "answered out of turn")
        except Stop:
            return self.stopped
        except _NOT_AN_ANSWER as error:
            return "wrong", f"malformed answer: {wire.text_of(error)}"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Give the function's value; raise what it raised, as the nearest built-in type."""
        reply = self._exchange(args, named)
        try:
            return self._open(reply, args, named)
        except _NOT_AN_ANSWER as error:
            if error is self.raised:
                raise
            self._stop("wrong", f"malformed answer: {wire.text_of(error)}")

    def _exchange(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        if self.stopped:
            raise Stop
        try:
            encoded = {"args": [_argument(a) for a in args], "named": [[k, _argument(v)] for k, v in named.items()]}
            wire.send(self._write, wire.pack(encoded))
        except wire.Gone:
            self._stop("gone", "during the tests")
        except (TypeError, RecursionError, wire.TooLarge) as error:
            self._stop("error:harness", f"the tests pass what cannot be sent: {wire.text_of(error)}")
        return self._receive("during the tests")

    def _receive(self, when: str = "before the tests") -> dict[str, Any]:
        try:
            reply = wire.receive(self._read)
        except wire.Gone:
            self._stop("gone", when)
        except wire.TooLarge:
            self._stop("wrong", "an answer is too large")
        except wire.Malformed as error:
            self._stop("wrong", f"malformed answer: {error}")
        if not isinstance(reply, dict):
            self._stop("wrong", "malformed answer")
        return reply

    def _open(self, reply: dict[str, Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if reply.get("too_large"):
            self._stop("wrong", f"an answer is larger than {wire.MAX_FRAME // 2**20} MB")
        if reply.get("state"):
            changed, changed_named = reply["state"]
            for old, new in zip(args, changed):
                restore(old, wire.decode(new))
            for name, new in changed_named:
                restore(named[name], wire.decode(new))
        if "raised" in reply:
            self.raised = wire.decode_error(reply["raised"])
            raise self.raised
        return wire.decode(reply["value"])

    def _stop(self, outcome: str, reason: str) -> NoReturn:
        self.stopped = (outcome, reason)
        raise Stop


def _argument(value: Any) -> Any:
    encoded = wire.encode(value)
    if isinstance(encoded, dict) and "opaque" in encoded and not isinstance(value, wire.Opaque):
        raise TypeError(encoded["opaque"])
    return encoded


def restore(old: Any, new: Any) -> Any:
    """Put what the candidate made of an argument into the tests' own object; gives the object to keep."""
    if type(old) is not type(new):
        return new
    if isinstance(old, list):
        kept = [restore(a, b) for a, b in zip(old, new)]
        old[:] = kept + new[len(kept) :]
        return old
    if isinstance(old, dict):
        kept_items = {key: restore(old[key], item) if key in old else item for key, item in new.items()}
        old.clear()
        old.update(kept_items)
        return old
    if isinstance(old, set):
        old.clear()
        old.update(new)
        return old
    if isinstance(old, bytearray):
        old[:] = new
        return old
    return tuple(restore(a, b) for a, b in zip(old, new)) if isinstance(old, tuple) and len(old) == len(new) else new


def run(setup: Setup, job: dict[str, Any]) -> None:
    """Judge one program and write the verdict."""
    confine.hide_from_peers()
    confine.close_all_but({0, 1, 2, setup.read_fd, setup.write_fd, setup.verdict_fd, setup.status_fd})
    confine.limit(setup)
    outcome, reason = judge(Candidate(setup), job)
    message = {"secret": job["secret"], "outcome": outcome, "reason": reason}
    wire.send(setup.verdict_fd, json.dumps(message).encode())
    os._exit(0)


def judge(candidate: Candidate, job: dict[str, Any]) -> Verdict:
    """Run the tests; correct is only what returned from them without any call having failed for good."""
    failed = candidate.load()
    if failed:
        return failed
    try:
        check = _prepare(candidate, job)
    except BaseException as error:
        if error is candidate.raised:
            return candidate.stopped or _judge_error(error)
        return candidate.stopped or ("error:harness", f"in the tests: {wire.text_of(error)}")
    try:
        check(candidate)
    except BaseException as error:
        return candidate.stopped or _judge_error(error, error is not candidate.raised, job["tests"])
    return candidate.stopped or ("correct", "")


def _prepare(candidate: Candidate, job: dict[str, Any]) -> Any:
    space: dict[str, Any] = {"__name__": "__tests__"}
    exec(compile(job["helpers"], "<helpers>", "exec", dont_inherit=True), space)
    space[job["entry_point"]] = candidate
    exec(compile(job["tests"], "<tests>", "exec", dont_inherit=True), space)
    if not callable(space.get("check")):
        raise NameError("no check(candidate)")
    return space["check"]


def _judge_error(error: BaseException, ours: bool = False, tests: str = "") -> Verdict:
    told = getattr(error, "told", None) or wire.text_of(error) + _line(error, tests)
    if isinstance(error, MemoryError):
        return "error:memory", told
    if ours and isinstance(error, _OURS):
        return "error:harness", f"in the tests: {told}"
    return "wrong", told


def _line(error: BaseException, tests: str) -> str:
    """Quote the tests' line that failed."""
    number, trace = 0, error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == "<tests>":
            number = trace.tb_lineno
        trace = trace.tb_next
    return f" in: {tests.splitlines()[number - 1].strip()[:300]}" if number else ""
