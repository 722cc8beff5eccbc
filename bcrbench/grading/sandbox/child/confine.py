"""Limits and privileges of one process, set by itself before it runs what it was given."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys

from bcrbench.grading.sandbox.child.setup import Setup

LINUX = sys.platform == "linux"
_MB = 2**20
_CPU_GRACE_S = 1  # between the signal that can be ignored and the one that cannot


def close_all_but(kept: set[int]) -> None:
    """Close every file descriptor that is not named."""
    low = 0
    for fd in [*sorted(fd for fd in kept if fd >= 0), 2**16]:
        if low < fd:  # for an empty range some versions of Python close all
            os.closerange(low, fd)
        low = fd + 1


def limit(setup: Setup) -> None:
    """Set the limits that the kernel counts for each process; the number of processes is counted for its user."""
    _bound(resource.RLIMIT_CORE, 0)
    _bound(resource.RLIMIT_CPU, setup.cpu_s, setup.cpu_s + _CPU_GRACE_S)
    _bound(resource.RLIMIT_FSIZE, setup.file_mb * _MB)
    _bound(resource.RLIMIT_NOFILE, setup.open_files)
    _bound(resource.RLIMIT_NPROC, setup.processes + _counted_already(setup))
    if LINUX:
        _bound(resource.RLIMIT_MSGQUEUE, 0)
        _bound(resource.RLIMIT_MEMLOCK, 0)
    _bound(resource.RLIMIT_AS, setup.memory_mb * _MB)


def _bound(which: int, soft: int, hard: int | None = None) -> None:
    _, allowed = resource.getrlimit(which)
    hard = soft if hard is None else hard
    if allowed != resource.RLIM_INFINITY:
        hard = min(hard, allowed)
    try:
        resource.setrlimit(which, (min(soft, hard), hard))
    except ValueError:
        if LINUX:
            raise  # macOS refuses an address space below what is mapped already


def _counted_already(setup: Setup) -> int:
    """Count the tasks of our user that the kernel holds against the same limit: none under a user id of our own."""
    if setup.uid >= 0 or not LINUX:
        return 0
    if setup.level != "process" and _counts_by_namespace():
        return 4  # the supervisors
    return sum(_tasks(pid) for pid in os.listdir("/proc") if pid.isdigit())


def _counts_by_namespace() -> bool:
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int("".join(filter(str.isdigit, minor)) or 0)) >= (5, 14)


def _tasks(pid: str) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task")) if os.stat(f"/proc/{pid}").st_uid == os.getuid() else 0
    except OSError:
        return 0


def be_first_to_die() -> None:
    """Let the kernel end this process before any other when the machine runs out of memory."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def become(uid: int) -> None:
    """Turn from root into an unprivileged user for good.

    Keeps the right to read where this Python lies in a folder that only root may enter. Raises OSError.
    """
    from bcrbench.grading.sandbox.child import kernel

    kernel.prctl(kernel.PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    readable = os.access(os.__file__, os.R_OK)
    kernel.set_capabilities(0 if readable else 1 << kernel.CAP_DAC_READ_SEARCH)
    kernel.prctl(kernel.PR_SET_KEEPCAPS, 0)


def renounce() -> None:
    """Give up every capability and the way to gain one. Raises OSError."""
    from bcrbench.grading.sandbox.child import kernel

    kernel.empty_bounding_set()
    kernel.set_capabilities(0)


def no_new_privileges() -> None:
    """Make set-user-id programs run as whoever starts them. Raises OSError."""
    from bcrbench.grading.sandbox.child import kernel

    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)


def end_with_parent() -> None:
    """Die when the supervisor does. Raises OSError."""
    from bcrbench.grading.sandbox.child import kernel

    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)


def hide_from_peers() -> None:
    """Keep other processes of this user from reading our memory and descriptors. Raises OSError."""
    if not LINUX:
        return
    from bcrbench.grading.sandbox.child import kernel

    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
