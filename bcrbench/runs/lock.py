"""One writer a log: an advisory lock on `<log>.lock`, which also says who holds it."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from bcrbench.errors import RunRefused, UserError


class LogHeld(RunRefused):
    """Another process, or another writer in this one, holds a log's lock."""


class WriteLock:
    """The lock of one log, taken on construction.

    It lies beside the log because a log may be replaced while it is locked. The kernel gives it back when the process
    dies, however it dies, so a left-over lock file never blocks. Raises LogHeld when another process, or another
    writer in this one, holds it, UserError when the folder cannot be written.
    """

    def __init__(self, log: Path) -> None:
        self.path = log.with_name(log.name + ".lock")
        self._fd: int | None = _take(log, self.path)

    def release(self) -> None:
        """Give the lock back and remove its file; does nothing the second time."""
        if self._fd is None:
            return
        with suppress(OSError):  # the folder may be gone
            self.path.unlink()  # before the lock goes, so that it is never someone else's file
        os.close(self._fd)
        self._fd = None


def _take(log: Path, path: Path) -> int:
    while True:
        fd = _open(log, path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip()
            os.close(fd)
            who = f"process {holder}" if holder else "another process"
            raise LogHeld(f"{log}: is being written by {who}, expected one writer a log") from None
        except OSError as error:
            os.close(fd)
            raise UserError(f"{log}: cannot be locked ({error.strerror})") from error
        if is_file_at(fd, path):
            with suppress(OSError):  # on a full disk the lock holds all the same, and does not say whose it is
                os.ftruncate(fd, 0)
                os.pwrite(fd, str(os.getpid()).encode(), 0)
            return fd
        os.close(fd)  # the holder before us removed the file between our open and our lock


def _open(log: Path, path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UserError(f"{log}: cannot be written ({error.strerror})") from error


def is_file_at(fd: int, path: Path) -> bool:
    """Whether an open file is still the one that a path names."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:  # gone, or a folder on the way to it is a file now
        return False
