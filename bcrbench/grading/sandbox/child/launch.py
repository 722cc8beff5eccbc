"""The first code of a child: confine it, run it in a process of its own, and end all that is left of it.

A candidate has a supervisor, this process, which holds what the candidate must not: the pipe that says how it ended and
the one whose closing (by the grader, or by the grader's death) ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from bcrbench.grading.sandbox.child import confine, setup, wire
from bcrbench.grading.sandbox.child.setup import Setup

SETUP_FAILED = 111  # exit status
_GIVE_UP_S = 5.0


def main(text: str) -> None:
    """Run one child from its set-up; never returns."""
    this = setup.read(text)
    try:
        if this.role == "tester":
            from bcrbench.grading.sandbox.child import tester

            tester.run(this, read_job(this.job_fd))
        else:
            _supervise(this)
    except BaseException as error:  # must reach the grader, whatever it is
        say(this.status_fd, {"failed": wire.text_of(error)})
        os._exit(SETUP_FAILED)
    os._exit(0)


def read_job(fd: int) -> Any:
    """Read the work from a file that only its descriptor names, and close it."""
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        return json.loads(file.read())


def say(fd: int, message: dict[str, Any]) -> None:
    """Tell the grader, if it still listens."""
    with contextlib.suppress(OSError):
        os.write(fd, json.dumps(message).encode() + b"\n")


def _supervise(this: Setup) -> None:
    confine.be_first_to_die()
    if this.level == "namespaces":
        from bcrbench.grading.sandbox.child import candidate, landlock, namespaces  # noqa: F401  before they vanish

        namespaces.enter(this)
        confine.hide_from_peers()
        init = _fork(lambda: _be_init(this))
        _wait(init, this.control_fd)
        return
    if confine.LINUX:
        from bcrbench.grading.sandbox.child import kernel

        confine.hide_from_peers()
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)  # what the candidate leaves behind becomes our child
    ended = _wait(_fork(lambda: _be_candidate(this)), this.control_fd)
    _end_the_rest(this)
    say(this.status_fd, ended)


def _be_init(this: Setup) -> None:
    """Be the first process of a process table: when it ends, the kernel ends all others in it."""
    from bcrbench.grading.sandbox.child import namespaces

    confine.end_with_parent()
    os.setsid()  # else a signal to the candidate's process group would reach us
    namespaces.build_root(this)
    say(this.status_fd, _wait(_fork(lambda: _be_candidate(this)), this.control_fd))


def _be_candidate(this: Setup) -> None:
    from bcrbench.grading.sandbox.child import candidate

    job = read_job(this.job_fd)
    os.setsid()
    confine.limit(this)
    abi = _drop_rights(this)
    say(this.status_fd, {"ready": True, "landlock": abi})
    confine.close_all_but({0, 1, 2, this.read_fd, this.write_fd})
    candidate.run(this, job)


def _drop_rights(this: Setup) -> int:
    if not confine.LINUX:
        return 0
    if this.uid >= 0:
        confine.become(this.uid)
    else:
        confine.renounce()
    confine.no_new_privileges()
    confine.end_with_parent()  # after the change of user, which would forget it
    if this.level != "process":
        return 0
    from bcrbench.grading.sandbox.child import landlock

    devices = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"]
    return landlock.restrict([*this.visible, *devices], [".", "/dev/null"])


def _fork(body: Callable[[], None]) -> int:
    """Run a body in a child that never returns here; a failure is told to the grader by `main`."""
    pid = os.fork()
    if pid:
        return pid
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    body()
    os._exit(0)


def _wait(pid: int, control_fd: int) -> dict[str, Any]:
    """Wait for a child, or kill it when the grader closes the control pipe; collects orphans on the way."""
    awake, alarm = os.pipe()
    os.set_blocking(alarm, False)
    os.set_blocking(awake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    try:
        while (ended := _collect(pid)) is None:
            ready, _, _ = select.select([awake, control_fd], [], [])
            if control_fd in ready:
                os.kill(pid, signal.SIGKILL)
                control_fd = awake
            if awake in ready:
                os.read(awake, 512)
        return ended
    finally:
        signal.set_wakeup_fd(-1)
        os.close(awake)
        os.close(alarm)


def _collect(wanted: int) -> dict[str, Any] | None:
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return {"ended": 0, "cpu_s": 0.0, "peak_kb": 0}
        if pid == wanted:
            peak = used.ru_maxrss if confine.LINUX else used.ru_maxrss // 1024
            return {"ended": status, "cpu_s": used.ru_utime + used.ru_stime, "peak_kb": peak}
        if not pid:
            return None


def _end_the_rest(this: Setup) -> None:
    """Kill every process that the candidate left, wherever it moved itself."""
    if this.uid >= 0:
        _kill_user(this.uid)
    elif this.level == "bubblewrap":
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # all of our own process table, but not us
    elif confine.LINUX:
        _kill_descendants()
    with contextlib.suppress(ChildProcessError):
        while True:  # all of them are ours by now, and none can live on
            os.wait()


def _kill_user(uid: int) -> None:
    """Kill all that runs under a user id that nobody but this child has."""

    def kill() -> None:
        os.setresuid(uid, uid, uid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)

    _fork(kill)


def _kill_descendants() -> None:
    """Kill our descendants until none is left: a process that forks meanwhile is found in the next round."""
    until = time.monotonic() + _GIVE_UP_S
    while (left := _descendants()) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        _collect(0)


def _descendants() -> set[int]:
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
            if state != b"Z":
                parents[int(name)] = int(parent)
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}
