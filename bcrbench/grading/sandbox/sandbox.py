"""The sandbox: find out how well this machine can confine a program, then judge and run programs in it.

A judgement takes two fresh children. The tester holds the tests and says the verdict; the candidate runs the generated
program and answers calls. docs/sandbox.md tells what each level guarantees.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bcrbench.errors import UserError, inert
from bcrbench.grading.sandbox import ending
from bcrbench.grading.sandbox.child import wire
from bcrbench.grading.sandbox.children import Child, start
from bcrbench.grading.sandbox.streams import Streams
from bcrbench.grading.sandbox.types import Evaluated, Judged, Level, Limits, Value

START_S = 60.0  # for a child to be ready on a loaded machine; not charged to the program
_VERDICT_CAP = 2**16


@dataclass(frozen=True)
class Sandbox:
    """A way to run programs, found to work; safe to use from several threads."""

    level: Level
    told: str  # the level and what it means, on one line
    limits: Limits = Limits()

    def judge(self, program: str, tests: str, entry_point: str, helpers: str = "") -> Judged:
        """Run the tests' `check(candidate)` on the program's function of that name.

        `tests` and `helpers` are trusted: they run in the tester, the helpers first. `tests` may call the function by
        its name too. A failure of ours is error:harness, and never wrong.
        """
        secret = secrets.token_hex(16)
        job = {"program": program, "entry_point": entry_point}
        trusted = {"tests": tests, "helpers": helpers, "entry_point": entry_point, "secret": secret}
        try:
            return self._judge(job, trusted)
        except OSError as error:
            return Judged("error:harness", f"a child could not start: {error}", 0.0, "")

    def _judge(self, job: dict[str, Any], trusted: dict[str, Any]) -> Judged:
        with contextlib.ExitStack() as stack:
            ends = _Ends(stack)
            streams = stack.enter_context(contextlib.closing(Streams()))
            calls, answers, verdict = ends.pipe(), ends.pipe(), ends.pipe()
            candidate = stack.enter_context(
                start("candidate", self.level, self.limits, job, streams, read_fd=calls[0], write_fd=answers[1])
            )
            tester = stack.enter_context(
                start(
                    "tester", "process", self.limits, trusted, streams,
                    read_fd=answers[0], write_fd=calls[1], verdict_fd=verdict[1],
                )
            )  # fmt: skip
            ends.close(calls + answers + verdict[1:])
            streams.add(ends.give(verdict[0]), _VERDICT_CAP)
            begun, on_time = self._follow(candidate, lambda: not streams.is_open(verdict[0]))
            spent = time.monotonic() - begun
            said = _verdict(bytes(streams.text(verdict[0])), trusted["secret"])
            if on_time and said and said[0] == "gone":
                streams.read_until(lambda: not streams.is_open(candidate.status), time.monotonic() + ending.KNOWN_S)
            stack.pop_all().close()
        outcome, reason = ending.of_judgement(said, on_time, candidate, tester, self.limits)
        return Judged(outcome, inert(reason), spent, candidate.printed())

    def _follow(self, candidate: Child, done: Any) -> tuple[float, bool]:
        """Wait until done or out of time: when the program could start, and whether it was done."""
        streams = candidate.streams
        streams.read_until(lambda: bool(candidate.said()) or done(), time.monotonic() + START_S)
        begun = time.monotonic()
        on_time = streams.read_until(lambda: done() or "failed" in candidate.said(), begun + self.limits.wall_s)
        return begun, on_time and "ready" in candidate.said()

    def evaluate(self, program: str, expressions: Sequence[str]) -> Evaluated:
        """Run the program, then write each expression's value, calling it first if it can be called without arguments.

        The program is alone with its values: this is feedback for a model, and no grade.
        """
        return self._evaluate(program, [[text] for text in expressions])

    def compare(self, program: str, pairs: Sequence[tuple[str, str]]) -> Evaluated:
        """Run the program, then compare each pair's call with its expected value, both Python expressions."""
        return self._evaluate(program, [list(pair) for pair in pairs])

    def _evaluate(self, program: str, expressions: list[list[str]]) -> Evaluated:
        job = {"program": program, "expressions": expressions}
        with contextlib.ExitStack() as stack:
            ends = _Ends(stack)
            streams = stack.enter_context(contextlib.closing(Streams()))
            answers = ends.pipe()
            try:
                candidate = stack.enter_context(
                    start("candidate", self.level, self.limits, job, streams, write_fd=answers[1])
                )
            except OSError as error:
                return _unstarted(f"a child could not start: {error}", len(expressions))
            ends.close(answers[1:])
            streams.add(ends.give(answers[0]), wire.MAX_FRAME)
            begun, on_time = self._follow(candidate, lambda: not streams.is_open(answers[0]))
            spent = time.monotonic() - begun
            streams.read_until(
                lambda: not streams.is_open(candidate.status), time.monotonic() + ending.KNOWN_S * on_time
            )
            messages = _messages(bytes(streams.text(answers[0])))
            stack.pop_all().close()
        outcome, reason = ending.of_evaluation(messages, len(expressions), on_time, candidate, self.limits)
        return Evaluated(outcome, inert(reason), _values(messages[1:], len(expressions)), spent, candidate.printed())


class _Ends:
    """Pipe ends that this process holds for a moment."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._held: set[int] = set()
        stack.callback(lambda: self.close(tuple(self._held)))

    def pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._held.update(ends)
        return ends

    def give(self, fd: int) -> int:
        self._held.remove(fd)
        return fd

    def close(self, fds: tuple[int, ...]) -> None:
        for fd in fds:
            self._held.remove(fd)
            os.close(fd)


def _verdict(text: bytes, secret: str) -> tuple[str, str] | None:
    """Read the tester's verdict; none without the secret."""
    try:
        said = json.loads(text)
        if not secrets.compare_digest(said["secret"], secret):
            return None
        return str(said["outcome"]), str(said["reason"])
    except (ValueError, KeyError, TypeError):
        return None


def _messages(text: bytes) -> list[dict[str, Any]]:
    """Split what the program's process wrote into messages, up to the first that is none."""
    found: list[dict[str, Any]] = []
    with contextlib.suppress(wire.Malformed, wire.TooLarge):
        while len(text) >= 8 and len(text) >= 8 + wire.length(text[:8]):
            size = 8 + wire.length(text[:8])
            message = wire.unpack(text[8:size])
            if not isinstance(message, dict):
                break
            found.append(message)
            text = text[size:]
    return found


def _values(messages: list[dict[str, Any]], count: int) -> tuple[Value, ...]:
    values = [_value(message) for message in messages[:count]]
    return (*values, *[Value(False, "", "not reached")] * (count - len(values)))


def _value(message: dict[str, Any]) -> Value:
    error = message.get("error")
    if error is None and isinstance(message.get("text"), str):
        return Value(True, _sound(message["text"]), "", message.get("equal") is True)
    return Value(False, "", _sound(str(error)))


def _sound(text: str) -> str:
    """Cut a text, and escape the lone surrogates that a log could not hold."""
    return text[: wire.TEXT_CAP].encode("utf-8", "backslashreplace").decode()


def _unstarted(reason: str, count: int) -> Evaluated:
    return Evaluated("error:harness", reason, _values([], count), 0.0, "")


def open_sandbox(limits: Limits | None = None, level: Level | None = None) -> Sandbox:
    """Open the strongest sandbox that works here, or the one named, after running a program in it.

    Raises UserError where none works, with the reason of each.
    """
    from bcrbench.grading.sandbox import levels

    if os.name != "posix":
        raise UserError("generated code needs POSIX process limits to run under; this system has none")
    return levels.find(limits or Limits(), level)
