"""Find the level that works here by running a program that tries to get out."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path

from bcrbench.errors import UserError, unknown
from bcrbench.grading.sandbox.children import can_lend_users
from bcrbench.grading.sandbox.sandbox import Sandbox
from bcrbench.grading.sandbox.types import LEVELS, Level, Limits

_MEANS = {
    "bubblewrap": "no network, read-only files, own process table (bwrap)",
    "namespaces": "no network, read-only files, own process table (kernel namespaces)",
}
_PROBE = """
import socket
def reaches():
    try:
        socket.create_connection(("127.0.0.1", {port}), 2).close()
        return True
    except OSError:
        return False
def writes():
    try:
        open({path!r}, "w").close()
        return True
    except OSError:
        return False
def works():
    open("kept", "w").close()
    return 6 * 7
"""


def find(limits: Limits, level: Level | None) -> Sandbox:
    """Give a sandbox of the strongest level that holds, or of the one named. Raises UserError."""
    if level is not None and level not in LEVELS:
        raise unknown("sandbox level", level, LEVELS)
    why_not = []
    for name in LEVELS if level is None else (level,):
        sandbox, reason = _try(name, limits)
        if sandbox:
            return sandbox
        why_not.append(f"{name}: {reason}")
    raise UserError(f"no sandbox for generated code works here ({'; '.join(why_not)})")


def _try(level: Level, limits: Limits) -> tuple[Sandbox | None, str]:
    if level != "process" and sys.platform != "linux":
        return None, "needs Linux"
    if level == "bubblewrap" and not shutil.which("bwrap"):
        return None, "bwrap is not installed"
    try:
        found, reason = _probe(Sandbox(level, "", limits))
    except OSError as error:
        return None, f"it cannot be tried: {error}"
    if reason:
        return None, reason
    held = [what for what, reached in (("TCP", found[0]), ("files", found[1])) if not reached]
    if level != "process" and len(held) < 2:
        return None, "a program got out of it"
    return Sandbox(level, _tell(level, held), limits), ""


def _probe(sandbox: Sandbox) -> tuple[list[bool], str]:
    """Run the probe: whether it reached a socket of ours and a file of ours, and why it did not run."""
    with socket.socket() as listener, tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        target = Path(folder, "written")
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        program = _PROBE.format(port=listener.getsockname()[1], path=str(target))
        done = sandbox.evaluate(program, ["works", "reaches", "writes"])
        texts = [value.text for value in done.values]
        if done.outcome != "ran" or texts[0] != "42":
            return [], done.reason or done.values[0].error or "the probe did not run"
        return [texts[1] != "False", texts[2] != "False" or target.exists()], ""


def _tell(level: Level, held: list[str]) -> str:
    words = {"TCP": ("no TCP", "network open"), "files": ("no writing outside its folder", "its user's files open")}
    means = _MEANS.get(level) or ", ".join(["limits only", *[pair[what not in held] for what, pair in words.items()]])
    return f"{level}: {means}; runs as {'a user of its own' if can_lend_users() else 'the user who grades'}"
