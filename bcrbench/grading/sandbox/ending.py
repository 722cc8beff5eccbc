"""How a program's end is told: from the tester's verdict, and from what the supervisor saw."""

from __future__ import annotations

import os
import signal
from typing import Any

from bcrbench.grading.sandbox.children import Child
from bcrbench.grading.sandbox.types import Limits, Outcome, Ran

KNOWN_S = 10.0  # for a supervisor to say how its program ended
_NEAR_MEMORY = 0.9  # of the limit: what was refused is not in the peak
_NEAR_CPU = (
    0.5  # of the limit: it is counted in ticks, and told by the scheduler's clock, which a busy host makes differ
)
_CPU_SIGNALS = (signal.SIGXCPU, signal.SIGKILL)
_PLAIN: dict[str, Outcome] = {
    name: name  # type: ignore[misc]
    for name in ("correct", "wrong", "error:memory", "error:harness")
}


def of_judgement(
    said: tuple[str, str] | None, on_time: bool, candidate: Child, tester: Child, limits: Limits
) -> tuple[Outcome, str]:
    """Give one judgement's outcome and reason."""
    failed = _failure(candidate) or _failure(tester, must_be_ready=False)
    if failed:
        return "error:harness", failed
    if not on_time:
        return "error:timeout", f"no verdict after {limits.wall_s:g} s"
    if said is None:
        return _of_tester(tester)
    outcome, reason = said
    if outcome == "gone":
        return _of_end(candidate, reason, limits)
    return _PLAIN.get(outcome, "error:harness"), reason


def of_evaluation(
    messages: list[dict[str, Any]], count: int, on_time: bool, candidate: Child, limits: Limits
) -> tuple[Ran, str]:
    """Give the outcome and reason of a program that was run for its values."""
    failed = _failure(candidate)
    if failed:
        return "error:harness", failed
    if not on_time:
        return "error:timeout", f"still running after {limits.wall_s:g} s"
    if messages and "raised" in messages[0]:
        raised = messages[0]["raised"]
        text = str(raised.get("text", "")) if isinstance(raised, dict) else ""
        return ("error:memory" if text.startswith("MemoryError") else "failed"), text
    if len(messages) <= count:
        when = "before its values" if len(messages) < 2 else "between its values"
        outcome, reason = _of_end(candidate, when, limits)
        return ("failed" if outcome == "wrong" else outcome), reason  # type: ignore[return-value]
    if any(message.get("memory") is True for message in messages):
        return "error:memory", "MemoryError in an expression"
    return "ran", ""


def _failure(child: Child, must_be_ready: bool = True) -> str:
    """Tell what went wrong before the program, or nothing."""
    said = child.said()
    if "failed" in said:
        return f"a child could not be confined: {said['failed']}"
    if must_be_ready and "ready" not in said:
        return f"a child did not start: {_last_line(child.printed())}"
    return ""


def _of_tester(tester: Child) -> tuple[Outcome, str]:
    if tester.process.returncode in (-signal.SIGXCPU,):
        return "error:timeout", "the tests used up their CPU time"
    return "error:harness", f"the tester ended without a verdict: {_last_line(tester.printed())}"


def _of_end(candidate: Child, when: str, limits: Limits) -> tuple[Outcome, str]:
    """Tell how a candidate ended that was to go on."""
    said = candidate.said()
    if "ended" not in said and candidate.level != "process":
        return "error:harness", f"the supervisor ended {when}"
    if "ended" not in said:  # at this level the program can do that
        return "wrong", f"ended its supervisor {when}"
    status = said["ended"]
    if os.WIFSIGNALED(status):
        name = _signal_name(os.WTERMSIG(status))
        if os.WTERMSIG(status) in _CPU_SIGNALS and said["cpu_s"] >= _NEAR_CPU * limits.cpu_s:
            return "error:timeout", f"used up {limits.cpu_s} s of CPU time {when}"
        if said["peak_kb"] >= _NEAR_MEMORY * limits.memory_mb * 1024:
            return "error:memory", f"killed by {name} at {limits.memory_mb} MB {when}"
        return "wrong", f"killed by {name} {when}"
    return "wrong", f"exited with {os.WEXITSTATUS(status)} {when}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else "no word from it"
