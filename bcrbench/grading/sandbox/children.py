"""Start one child with its pipes, folder and user, and leave nothing of it behind."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bcrbench.grading.sandbox.child.setup import BOX, Setup
from bcrbench.grading.sandbox.folders import empty_folder
from bcrbench.grading.sandbox.streams import Streams
from bcrbench.grading.sandbox.types import Level, Limits

_PACKAGE = Path(__file__).parents[2]
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); from bcrbench.grading.sandbox.child.launch import main; "
    "del sys.path[0]; main(sys.argv[2])"
)
# The range systemd keeps for passing users: no account of a machine has one of these.
_FIRST_UID, _LAST_UID = 61184, 65519
_LIBRARIES = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store")
_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives")
_END_S = 10.0
_STATUS_CAP = 2**14


@dataclass
class Child:
    """A running child: its process, the pipe that ends it, and what it says."""

    process: subprocess.Popen[bytes]
    control: int
    status: int
    output: int
    level: Level
    streams: Streams = field(repr=False)

    def said(self) -> dict[str, Any]:
        """All that its supervisor has said: ready, landlock, failed, ended, cpu_s, peak_kb."""
        lines = self.streams.text(self.status).split(b"\n")[:-1]
        return {key: value for line in lines for key, value in json.loads(line).items()}

    def printed(self) -> str:
        """What it has printed, up to the cap."""
        return self.streams.text(self.output).decode("utf-8", "replace")


def visible_paths(level: Level) -> list[str]:
    """List what a confined child may read: Python, the system's libraries, and for bubblewrap this package."""
    own = [str(_PACKAGE)] if level == "bubblewrap" else []
    prefixes = [os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, sys.exec_prefix)]
    wanted = [*_LIBRARIES, *_FILES, sys.prefix, *prefixes, *own]
    found: list[str] = []
    for path in wanted:
        inside = any(path == other or path.startswith(other + "/") for other in found if not os.path.islink(other))
        if os.path.lexists(path) and not inside and path != "/":
            found.append(path)
    return found


@contextlib.contextmanager
def start(
    role: str,
    level: Level,
    limits: Limits,
    job: dict[str, Any],
    streams: Streams,
    read_fd: int = -1,
    write_fd: int = -1,
    verdict_fd: int = -1,
) -> Iterator[Child]:
    """Run one child while the block lasts; at its end all of its processes, pipes and files are gone.

    Raises OSError where the child cannot be started.
    """
    with contextlib.ExitStack() as stack:
        uid = stack.enter_context(_own_uid()) if role == "candidate" and can_lend_users() else -1
        folder = stack.enter_context(empty_folder(uid if uid >= 0 and level == "process" else None))
        work = stack.enter_context(tempfile.TemporaryFile())
        work.write(json.dumps(job).encode())
        work.flush()
        pipes = _Pipes(stack)
        setup = Setup(
            role=role,
            level=level,
            uid=uid,
            folder=folder,
            cpu_s=limits.cpu_s,
            memory_mb=limits.memory_mb,
            processes=limits.processes,
            file_mb=limits.file_mb,
            open_files=limits.open_files,
            job_fd=work.fileno(),
            control_fd=pipes.control[0],
            status_fd=pipes.status[1],
            read_fd=read_fd,
            write_fd=write_fd,
            verdict_fd=verdict_fd,
            visible=visible_paths(level),
        )
        process = _spawn(setup, folder, pipes.output[1])
        pipes.close_childs_ends()
        streams.add(pipes.status[0], _STATUS_CAP)
        streams.add(pipes.output[0], limits.output_kb * 1024)
        child = Child(process, pipes.control[1], pipes.status[0], pipes.output[0], level, streams)
        try:
            yield child
        finally:
            _end(child, role, pipes)


class _Pipes:
    """The three pipes between the grader and one child's supervisor."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._open: set[int] = set()
        stack.callback(self.close)
        self.control = self._pipe()
        self.status = self._pipe()
        self.output = self._pipe()

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._open.update(ends)
        return ends

    def close_childs_ends(self) -> None:
        for fd in (self.control[0], self.status[1], self.output[1]):
            self._close(fd)
        self._open -= {self.status[0], self.output[0]}  # the streams own them now

    def close_control(self) -> None:
        self._close(self.control[1])

    def close(self) -> None:
        for fd in list(self._open):
            self._close(fd)

    def _close(self, fd: int) -> None:
        if fd in self._open:
            self._open.remove(fd)
            os.close(fd)


def _spawn(setup: Setup, folder: str, output: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-c", _BOOT, str(_PACKAGE.parent), setup.write()]
    fds = [setup.job_fd, setup.control_fd, setup.status_fd, setup.read_fd, setup.write_fd, setup.verdict_fd]
    with contextlib.ExitStack() as stack:
        if setup.level == "bubblewrap":
            # bubblewrap's own processes hold it too, so that it closes when they are gone
            second = os.dup(setup.status_fd)
            stack.callback(os.close, second)
            fds.append(second)
            command = [*_bubblewrap(setup, second), *command]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=_environment(folder if setup.level == "process" else BOX),
            pass_fds=[fd for fd in fds if fd >= 0],
            start_new_session=True,
        )


def _environment(home: str) -> dict[str, str]:
    """Build the whole environment of a child: nothing of the grader's but where the loader finds libraries."""
    own = {
        "PATH": "/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "MALLOC_ARENA_MAX": "2",  # an arena a thread would fill the address space
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    libraries = os.environ.get("LD_LIBRARY_PATH")
    return {**own, "LD_LIBRARY_PATH": libraries} if libraries else own


def _bubblewrap(setup: Setup, held_fd: int) -> list[str]:
    shown: list[str] = []
    for parent in sorted({str(parent) for path in setup.visible for parent in Path(path).parents[:-1]}):
        if not any(parent == path or parent.startswith(path + "/") for path in setup.visible):
            shown += ["--perms", "0755", "--dir", parent]  # else closed to others where the original is
    for path in setup.visible:
        if os.path.islink(path):
            shown += ["--symlink", os.readlink(path), path]
        else:
            shown += ["--ro-bind", path, path]
    rights = ["--cap-drop", "ALL"]
    if setup.uid >= 0:  # the supervisor inside becomes an unprivileged user
        rights += [word for name in ("SETUID", "SETGID", "KILL") for word in ("--cap-add", f"CAP_{name}")]
    else:
        rights += ["--unshare-user"]
    apart = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent"]
    apart += ["--sync-fd", str(held_fd)]
    size = ["--size", str(setup.file_mb * 2**20)] if _bubblewrap_sizes() else []
    box = ["--perms", "0777", *size, "--tmpfs", BOX, "--chdir", BOX]
    return [
        shutil.which("bwrap") or "bwrap",
        *apart,
        *rights,
        *shown,
        "--dev",
        "/dev",
        *box,
        "--remount-ro",
        "/dev",
        "--remount-ro",
        "/",
        "--",
    ]


@functools.cache
def _bubblewrap_sizes() -> bool:
    """Whether this bwrap can bound a folder in memory (0.8 on)."""
    told = subprocess.run([shutil.which("bwrap") or "bwrap", "--help"], capture_output=True, text=True, check=False)
    return "--size" in told.stdout


@functools.cache
def can_lend_users() -> bool:
    """Whether we are root with the user ids that we lend, which a container may lack."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    with contextlib.suppress(OSError), open("/proc/self/uid_map") as file:
        ranges = [tuple(map(int, line.split())) for line in file]
        return any(first <= _FIRST_UID and first + count > _LAST_UID for first, _, count in ranges)
    return True


@contextlib.contextmanager
def _own_uid() -> Iterator[int]:
    """Lend a user id that no other child has, so that its limits, and the signals that end it, are its own."""
    with socket.socket(socket.AF_UNIX) as held:
        yield _claim_uid(held)


def _claim_uid(held: socket.socket) -> int:
    """Claim a user id against every other grader on this machine, by a name that one socket only can have."""
    for uid in random.SystemRandom().sample(range(_FIRST_UID, _LAST_UID + 1), _LAST_UID + 1 - _FIRST_UID):
        with contextlib.suppress(OSError):
            held.bind(f"\0bcrbench-sandbox-{uid}")
            return uid
    raise OSError("every user id for sandboxes is in use")


def _end(child: Child, role: str, pipes: _Pipes) -> None:
    """Have the supervisor end everything, and make sure; the process is waited for last, so its id stays its own."""
    pipes.close_control()
    if role == "candidate":
        child.streams.read_until(lambda: not child.streams.is_open(child.status), time.monotonic() + _END_S)
    with contextlib.suppress(OSError):
        os.killpg(child.process.pid, signal.SIGKILL)
    child.process.wait()
    child.streams.drain()
