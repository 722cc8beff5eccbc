"""An empty folder for a moment, and its removal whatever a program has made of it."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import tempfile
from collections.abc import Iterator

_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextlib.contextmanager
def empty_folder(owner: int | None = None) -> Iterator[str]:
    """Lend an empty folder, given to a user where one is named; remove it afterwards, whatever is in it."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="bcrbench-sandbox-"))
    try:
        if owner is not None:
            os.chown(folder, owner, owner)
        yield folder
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(folder)  # an empty one goes where no file can be opened any more
        with contextlib.suppress(OSError):
            os.chmod(folder, stat.S_IRWXU)
            _clear(folder)
            os.rmdir(folder)


def _clear(folder: str) -> None:
    """Empty a folder in one pass over its entries: what lies deeper is moved up first.

    Descending instead would take a recursion, or open files, as deep as the program could nest folders.
    """
    top = os.open(folder, _ENTER)
    names = map(str, itertools.count())
    try:
        while entries := os.listdir(top):
            for entry in entries:
                _remove(top, entry, names)
    finally:
        os.close(top)


def _remove(top: int, entry: str, names: Iterator[str]) -> None:
    if not stat.S_ISDIR(os.stat(entry, dir_fd=top, follow_symlinks=False).st_mode):
        os.unlink(entry, dir_fd=top)
        return
    os.chmod(entry, stat.S_IRWXU, dir_fd=top)
    inside = os.open(entry, _ENTER, dir_fd=top)
    try:
        for inner in os.listdir(inside):
            _move_up(inside, inner, top, names)
    finally:
        os.close(inside)
    os.rmdir(entry, dir_fd=top)


def _move_up(inside: int, inner: str, top: int, names: Iterator[str]) -> None:
    if not stat.S_ISDIR(os.stat(inner, dir_fd=inside, follow_symlinks=False).st_mode):
        os.unlink(inner, dir_fd=inside)
        return
    os.chmod(inner, stat.S_IRWXU, dir_fd=inside)  # a folder can be moved by who may write to it only
    name = next(name for name in names if not _exists(top, name))
    os.rename(inner, name, src_dir_fd=inside, dst_dir_fd=top)


def _exists(top: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=top, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
