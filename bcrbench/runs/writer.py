"""Writing a run log: one whole line per append, on the disk before the call returns."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bcrbench.errors import RunFailed, UserError
from bcrbench.runs.lines import check_first_line, explain, is_torn_start, read_bytes, whole_length
from bcrbench.runs.lock import WriteLock, is_file_at
from bcrbench.runs.schema import EndRecord, Record

if TYPE_CHECKING:
    from typing_extensions import Self

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


class LogWriter:
    """Appends records to a log, new or old, while holding its write lock. A context manager.

    A torn tail is cut off on opening, and the file is created by the first append, so that a run that fails before
    its first record leaves nothing behind. With `reopen`, the end record of a run that was cancelled or failed is
    taken out, so that more items may follow. Raises UserError when the log is being written by someone else, cannot
    be written, is not ours, or (with `reopen`) is complete.
    """

    def __init__(self, path: Path | str, reopen: bool = False) -> None:
        self.path = Path(path)
        _make_directory(self.path.parent)
        self._lock = WriteLock(self.path)
        self._fd: int | None = None
        try:
            self.cut = repair_tail(self.path) if self.path.exists() else 0  # bytes of torn tail that were cut off
            self.fresh = not self.path.exists() or self.path.stat().st_size == 0  # a run record is owed first
            if reopen:
                self.reopen()
        except BaseException:
            self._lock.release()
            raise

    def reopen(self) -> None:
        """Take out the end record of a run that was cancelled or failed, so that more items may follow.

        Raises UserError for a complete run, RunFailed when the disk refuses; the log is then as it was before.
        """
        if not self.fresh:
            _drop_end(self.path)

    def append(self, record: Record) -> None:
        """Write one line and wait until it is on the disk.

        Raises RunFailed when the disk refuses it, ValueError for a record that could not be read back; the log is
        then as it was before.
        """
        self.extend([record])

    def extend(self, records: Iterable[Record]) -> None:
        """Append many records with one write and one wait."""
        data = b"".join(_line(record) for record in records)
        if self._fd is None:
            self._fd = _open(self.path)
        elif not is_file_at(self._fd, self.path):
            raise RunFailed(f"{self.path}: was removed or replaced during the run, expected it to stay where it is")
        _write(self.path, self._fd, data)

    def close(self) -> None:
        """Close the file and give the lock back; does nothing the second time."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ensure_writable(directory: Path | str) -> None:
    """Check that a run directory can be written, or made where it is missing; raises UserError, leaves nothing behind.

    Call before loading a model. The first log makes the directory.
    """
    import tempfile

    directory = Path(directory)
    there = next(folder for folder in (directory, *directory.parents) if os.path.lexists(folder))
    if not there.is_dir():
        raise UserError(f"run directory {directory}: {there} is a file, expected a directory")
    try:
        with tempfile.NamedTemporaryFile(dir=there, prefix=".writable-"):
            pass
    except OSError as error:
        raise UserError(f"run directory {directory}: cannot be written ({error.strerror})") from error


def repair_tail(path: Path | str) -> int:
    """Cut a torn tail back to the last newline; returns how many bytes went. Hold the write lock while resuming.

    Raises UserError for a file that is not a log of ours: nothing is cut from it.
    """
    path = Path(path)
    data = read_bytes(path)
    whole = whole_length(data)
    if whole == len(data):
        return 0
    if whole or not is_torn_start(data):
        check_first_line(path, data, whole)
    try:
        with path.open("r+b") as file:
            file.truncate(whole)
            os.fsync(file.fileno())
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from error
    return len(data) - whole


def _line(record: Record) -> bytes:
    line = _ENCODER.encode(record)
    try:
        _DECODER.decode(line)  # a NaN, for one, becomes null: better refused here than on reading
    except msgspec.ValidationError as error:
        raise ValueError(f"record cannot be read back: {explain(error)}") from error
    return line + b"\n"


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"run directory {directory}: cannot be made ({error.strerror})") from error


def _open(path: Path) -> int:
    created = not path.exists()
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from error
    if created:
        _sync_directory(path.parent)
    return fd


def _write(path: Path, fd: int, data: bytes) -> None:
    start = os.fstat(fd).st_size
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    except OSError as error:
        with suppress(OSError):  # when even this fails, the next opening cuts the torn tail
            os.ftruncate(fd, start)
            if not start:  # an empty file is no log
                path.unlink()
        raise RunFailed(f"{path}: cannot be written ({error.strerror}); the lines before are kept") from error


def _drop_end(path: Path) -> None:
    lines = read_bytes(path).splitlines(keepends=True)
    ends = {line: _end(line) for line in lines if line.startswith(b'{"record":"end"')}
    if any(end is not None and end.status == "complete" for end in ends.values()):
        raise UserError(f"{path}: the run is complete, expected one that was cancelled, failed or killed")
    if ends:
        _replace(path, b"".join(line for line in lines if line not in ends))


def _end(line: bytes) -> EndRecord | None:
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(line, type=EndRecord)
    return None


def _replace(path: Path, data: bytes) -> None:
    new = path.with_name(path.name + ".new")
    try:
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
        _sync_directory(path.parent)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise RunFailed(f"{path}: cannot be written ({error.strerror}); it is as it was before") from error


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
