"""Files that a command writes for a person: whole or as they were, and nothing but files is written over."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from bcrbench.errors import UserError


def make_folder(folder: Path, option: str) -> None:
    """Make a folder and those above it. Raises UserError, which names the option, where that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{option} {str(folder)!r}: cannot be made ({error.strerror}), expected a folder") from error


def write_whole(path: Path, content: bytes, option: str) -> None:
    """Write a file in one step, so that no reader meets half of it; a link's target where the path is one.

    Raises UserError, which names the option, for what is there and no file (a device, a folder), and for a place that
    cannot be written to.
    """
    target = Path(os.path.realpath(path))
    check_file(path, option)
    make_folder(target.parent, option)
    try:
        handle, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.")
    except OSError as error:
        raise _refusal(path, option, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, target)
    except OSError as error:
        os.unlink(beside)
        raise _refusal(path, option, error) from error


def check_file(path: Path, option: str) -> None:
    """Raise UserError for a path at which something other than a file is: it would be lost, or take nothing."""
    if path.is_dir():
        raise UserError(f"{option} {str(path)!r}: is a folder, expected a file")
    if path.exists() and not path.is_file():
        raise UserError(f"{option} {str(path)!r}: is a device or a pipe, expected a file")


def _refusal(path: Path, option: str, error: OSError) -> UserError:
    return UserError(f"{option} {str(path)!r}: cannot be written ({error.strerror}), expected a place with room for it")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
