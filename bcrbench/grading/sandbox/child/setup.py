"""What the grader tells a child when it starts it: where to run and under which limits."""

from __future__ import annotations

import json
from typing import NamedTuple

BOX = "/box"  # the working folder where a file system of its own is laid around the child


class Setup(NamedTuple):
    """One child. Nothing in it is secret: the command line of a process can be read by others."""

    role: str  # candidate or tester
    level: str  # bubblewrap, namespaces or process
    uid: int  # run as this user; -1: as the grader's
    folder: str  # an empty folder: worked in, or the mount point of the new root
    cpu_s: int
    memory_mb: int
    processes: int
    file_mb: int
    open_files: int
    job_fd: int  # the work itself, as one JSON text
    control_fd: int  # closed by the grader: end now
    status_fd: int  # to the grader: the start, then the end
    read_fd: int  # messages of the other child (-1: none)
    write_fd: int  # messages to the other child, or to the grader
    verdict_fd: int  # the tester's only (-1: none)
    visible: list[str]  # paths that a namespace shows, read-only

    def write(self) -> str:
        """As one argument of a command line."""
        return json.dumps(list(self))


def read(text: str) -> Setup:
    """Read what `Setup.write` wrote."""
    return Setup(*json.loads(text))
