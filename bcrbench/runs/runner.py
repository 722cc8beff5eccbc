"""Items to log: runs what is owed, one durable line an item."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Callable, Generic, Iterator, Protocol, Sequence, TypeVar

from bcrbench.errors import RunFailed
from bcrbench.runs.log import Log, LogWriter
from bcrbench.runs.schema import ItemRecord, Memory, RunRecord, Status
from bcrbench.runs.tally import Tally

Item = TypeVar("Item")
RunOne = Callable[[int, Item, ItemRecord | None], ItemRecord]


class Progress(Protocol):
    """Is told of every finished item."""

    def item(self, record: ItemRecord, replayed: bool) -> None:
        """One more item is done."""


class Cancelled(Exception):
    """A person stopped the run; the log says so and can be resumed."""


@dataclass
class Stop:
    """Whether somebody asked to stop after the running item."""

    asked: bool = False


@contextmanager
def stopping() -> Iterator[Stop]:
    """Turn the first Ctrl-C or SIGTERM into a request to stop after the item; a second one is immediate."""
    stop = Stop()

    def ask(number: int, frame: object) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    old = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


@dataclass
class Run(Generic[Item]):
    """A run to carry out: its first line, its items in order, and how one item is run.

    `repairs` says that calls are to be repaired: a whole run in which none was has failed. `before` is what is done
    first, in every session: it leaves the state that the first item starts from, and no line in the log. `memory`
    tells, at the end, what the session took.
    """

    record: RunRecord
    items: Sequence[Item]
    run_one: RunOne[Item]
    repairs: bool = False
    before: Sequence[Callable[[], None]] = ()
    memory: Callable[[], Memory | None] = lambda: None


def carry_out(run: Run[Item], writer: LogWriter, done: Log[ItemRecord] | None, progress: Progress) -> Status:
    """Run the items that the log still owes and close it. `done` is the log so far, None for a new one.

    A stateful run first replays the items it has (resume); they are let go afterwards, since the file has them. Raises
    RunFailed when the state cannot be rebuilt, an item cannot be run, or a repair never engaged; the log then says why
    and stays resumable. Raises Cancelled after a stop was asked for.
    """
    finished = Tally()
    if done is None:
        writer.append(run.record)
    with stopping() as stop:
        try:
            _prepare(run, stop)
            if done is not None:
                finished.extend(done.items)
                resume(run, done, progress, stop)
                done.items.clear()
            _run_owed(run, writer, finished, progress, stop)
            if finished.items == len(run.items):
                _check_engaged(run, finished)
        except RunFailed as error:
            writer.append(finished.end("failed", str(error), run.memory()))
            raise
        if stop.asked and finished.items < len(run.items):
            writer.append(finished.end("cancelled", "stopped by the user", run.memory()))
            raise Cancelled
    writer.append(finished.end("complete", "", run.memory()))
    return "complete"


def _prepare(run: Run[Item], stop: Stop) -> None:
    for step in run.before:
        if stop.asked:
            return
        step()


def resume(run: Run[Item], done: Log[ItemRecord], progress: Progress, stop: Stop) -> None:
    """Rebuild the state that a log's items left behind.

    A stateless run has none. A stateful one replays everything but decoding and compares the anchor pool's hash
    after every item with the logged one. Raises RunFailed when they differ.
    """
    if len(done.items) > len(run.items):
        raise RunFailed(f"the log holds {len(done.items)} items, expected {len(run.items)}; it cannot be resumed")
    for number, logged in enumerate(done.items):
        if logged.index != number:
            raise RunFailed(f"item {logged.index} stands where item {number} is expected; the log cannot be resumed")
        if stop.asked:
            return
        if run.record.stateful:
            again = run.run_one(number, run.items[number], logged)
            _compare(logged, again)
        progress.item(logged, True)


def _compare(logged: ItemRecord, again: ItemRecord) -> None:
    for name in ("item_hash", "pool_hash", "rng"):
        before, now = getattr(logged, name), getattr(again, name)
        if before != now:
            raise RunFailed(
                f"resuming: after item {logged.index} ({logged.id}) the {name} is {now}, the log says {before}; "
                "the state cannot be rebuilt on this machine or code, start the run anew"
            )


def _run_owed(run: Run[Item], writer: LogWriter, finished: Tally, progress: Progress, stop: Stop) -> None:
    for index in range(finished.items, len(run.items)):
        if stop.asked:
            return
        record = run.run_one(index, run.items[index], None)
        try:
            writer.append(record)
        except ValueError as error:  # a NaN distance, for one
            raise RunFailed(f"item {index} ({record.id}): {error}") from error
        finished.add(record)
        progress.item(record, False)


def _check_engaged(run: Run[Item], finished: Tally) -> None:
    """Raise RunFailed when a repair never engaged: the run would pass for what it is not."""
    if run.repairs and not finished.seen.repaired:
        raise RunFailed(f"the repair never engaged: {finished.seen.told}")
