"""The worker's side: one run from a ticket, with the runs' own log, lock and resume. Knows nothing of who sent it."""

from __future__ import annotations

import os
import platform
import time
from functools import cache, partial
from pathlib import Path

import msgspec

from bcrbench.engine.quiet import quiet_libraries
from bcrbench.errors import RunFailed, RunRefused, UserError
from bcrbench.runs.lock import LogHeld
from bcrbench.sweep.execute import Models, execute
from bcrbench.sweep.executors.base import Say
from bcrbench.sweep.executors.ticket import Report, Ticket, replan
from bcrbench.sweep.progress import Reporter

# The kernel gives a dead process's lock back at once; a network file system's server may wait out a lease of 90 s.
LOCK_WAIT_S = 120.0


def carry(ticket: bytes) -> bytes:
    """Carry out a ticket's run, or what an earlier worker left of it; ticket and report are JSON. Raises Cancelled."""
    said: list[str] = []
    try:
        log = _carry(msgspec.json.decode(ticket, type=Ticket), said.append)
        report = Report(log=str(log), said=said)
    except (RunFailed, RunRefused) as error:
        report = Report(failed=str(error), said=said)
    except UserError as error:
        report = Report(mistake=str(error), said=said)
    return msgspec.json.encode(report)


def _carry(ticket: Ticket, say: Say) -> Path:
    _enter(ticket)
    plan = replan(ticket)
    quiet_libraries()
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            return execute(plan, _models(), say, partial(Reporter, every=float("inf")))
        except LogHeld:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.5)


def _enter(ticket: Ticket) -> None:
    """Go where the driver's paths begin. Raises UserError when its files are not seen from this machine."""
    try:
        os.chdir(ticket.folder)
    except OSError as error:
        raise UserError(
            f"folder {ticket.folder}: {error.strerror} on {platform.node()}, expected a path that all machines share"
        ) from error
    if ticket.marker and not Path(ticket.marker).exists():
        raise UserError(
            f"--out {ticket.settings.out}: the driver's files are not seen on {platform.node()}, "
            "expected a path that all machines share"
        )


@cache
def _models() -> Models:
    """This process's model: a worker that is given one run after another loads it once."""
    return Models()
