"""Read several pipes of children at once, each up to its cap, until something happens or the time is over."""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Callable

_CHUNK = 2**16


class Streams:
    """The grader's ends of pipes: what came on each, and which are still open."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._text: dict[int, bytearray] = {}
        self._cap: dict[int, int] = {}

    def add(self, fd: int, cap: int) -> None:
        """Own a descriptor from here on; keep `cap` bytes of what it brings and drop the rest."""
        os.set_blocking(fd, False)
        self._selector.register(fd, selectors.EVENT_READ)
        self._text[fd], self._cap[fd] = bytearray(), cap

    def text(self, fd: int) -> bytearray:
        """What has come, up to the cap."""
        return self._text[fd]

    def is_open(self, fd: int) -> bool:
        """Whether more may come."""
        return fd in self._selector.get_map()

    def read_until(self, done: Callable[[], bool], deadline: float) -> bool:
        """Read until `done` (True), or until the deadline, a time.monotonic, or the end of all pipes (False)."""
        while not done():
            left = deadline - time.monotonic()
            if left <= 0 or not self._selector.get_map():
                return False
            for key, _ in self._selector.select(left):
                self._read(key.fd)
        return True

    def _read(self, fd: int) -> None:
        try:
            chunk = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._selector.unregister(fd)
            os.close(fd)
            return
        room = self._cap[fd] - len(self._text[fd])
        self._text[fd] += chunk[: max(0, room)]

    def drain(self) -> None:
        """Read what lies in the pipes already, without waiting."""
        while ready := self._selector.select(0) if self._selector.get_map() else []:
            before = sum(map(len, self._text.values()))
            for key, _ in ready:
                self._read(key.fd)
            if sum(map(len, self._text.values())) == before and all(self.is_open(key.fd) for key, _ in ready):
                return  # only what is above the caps

    def close(self) -> None:
        """Close what is still open."""
        for key in list(self._selector.get_map().values()):
            self._selector.unregister(key.fd)
            with contextlib.suppress(OSError):
                os.close(key.fd)
        self._selector.close()
