"""Each run a Ray task. Ray places and retries; the run's log, its lock and our resume do the rest."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from bcrbench.errors import UserError, told
from bcrbench.runs.runner import Cancelled, stopping
from bcrbench.sweep.executors.base import Ended, Say, Where
from bcrbench.sweep.executors.carried import carry
from bcrbench.sweep.executors.order import Queue
from bcrbench.sweep.executors.ticket import Report, issue
from bcrbench.sweep.executors.view import View
from bcrbench.sweep.plan import Plan

MAX_RETRIES = 5  # each goes on where the last one was killed
LOOK_S = 0.5
CONNECT_S = 10.0
OBJECT_STORE_BYTES = 100 * 2**20  # tickets and reports only; Ray's least is 75 MiB

# Read by Ray when it is imported; what a person set stays. The second keeps Ray's own lines off standard output.
_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS_SKIP_REGEX": "."}
# Ray's switch for machines whose firewall asks about open ports: all its servers then bind to the loopback address.
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


def run(plans: list[Plan], where: Where, say: Say) -> Iterator[Ended]:
    """Carry out the plans, as many at once as there is room for (base.Executor)."""
    ray = _import(where)
    _check_reachable(where.address)
    queue = Queue(plans)
    # The outer one is for a stop while Ray starts, and undoes the handlers that Ray sets.
    with stopping() as early, _cluster(ray, where, plans) as local, stopping() as stop:
        gpus = _gpus(ray, where)
        _check_room(ray.nodes(), plans, gpus, local, say)
        with ExitStack() as seen, View(plans, say) as view:
            crew = Crew(ray, queue, where.workers, gpus, _markers(plans, seen))
            while crew.busy():
                for report, end in crew.landed():
                    view.end(end)
                    for line in report.said:
                        say(line)
                    yield end
                view.show(list(crew.flying.values()))
                if stop.asked or early.asked:
                    crew.stop()
    if crew.mistake:
        raise UserError(crew.mistake)
    if crew.stopped:
        raise Cancelled


class Crew:
    """The tasks in flight: sends off what may start, takes in what has ended.

    After a mistake, or `stop`, nothing more is sent off, and running items are the last ones of their runs.
    """

    def __init__(self, ray: Any, queue: Queue, workers: int | None, gpus: float, markers: dict[str, str]) -> None:
        self.ray, self.queue, self.gpus, self.markers = ray, queue, gpus, markers
        self.most = workers or inf
        self.flying: dict[Any, Plan] = {}
        self.tasks: dict[tuple[int, float], Any] = {}
        self.mistake = ""
        self.stopped = self._closed = False
        self._lost: list[Ended] = []

    def busy(self) -> bool:
        """Send off what may start; whether anything is in flight, or was lost and is still to be told."""
        while not self._closed and len(self.flying) < self.most:
            plan = self.queue.take()
            if plan is None:
                break
            lost = self.queue.lost(plan)
            if lost is None:
                self._send(plan)
            else:
                self.queue.ended(lost)
                self._lost.append(lost)
        return bool(self.flying or self._lost)

    def landed(self) -> Iterator[tuple[Report, Ended]]:
        """The runs that ended since the last look, which takes a moment."""
        while self._lost:
            yield Report(), self._lost.pop(0)
        flying = list(self.flying)
        ready = self.ray.wait(flying, num_returns=len(flying), timeout=LOOK_S)[0] if flying else []
        for task in ready:
            plan, report = self.flying.pop(task), self._report(task)
            if report is None:
                self.stopped = True
            elif report.mistake:
                self.mistake = self.mistake or report.mistake
                self.stop()
            else:
                end = _end(plan, report)
                self.queue.ended(end)
                yield report, end

    def stop(self) -> None:
        """Send no more, and ask every run in flight to stop after its item."""
        if self._closed:
            return
        self._closed = self.stopped = True
        for task in self.flying:
            self.ray.cancel(task)

    def _send(self, plan: Plan) -> None:
        settings = plan.cell.settings
        task = self._task(settings.threads or 1, 0 if settings.device == "cpu" else self.gpus)
        ticket = issue(plan, os.getcwd(), self.markers[settings.out])
        self.flying[task.remote(msgspec.json.encode(ticket))] = plan

    def _task(self, cpus: int, gpus: float) -> Any:
        """The remote function for such a share of a machine, made once: Ray ships each one to all workers."""
        if (cpus, gpus) not in self.tasks:
            self.tasks[cpus, gpus] = self.ray.remote(
                num_cpus=cpus,
                num_gpus=gpus,
                max_retries=MAX_RETRIES,
                retry_exceptions=[Cancelled],  # asked to stop, and not by us: a machine that goes down does that
                max_calls=1 if gpus else 0,  # an idle worker would keep its model on a GPU that others are then given
            )(carry)
        return self.tasks[cpus, gpus]

    def _report(self, task: Any) -> Report | None:
        """A task's report; None when it was stopped because we asked."""
        errors = self.ray.exceptions
        try:
            return msgspec.json.decode(self.ray.get(task), type=Report)
        except (Cancelled, errors.TaskCancelledError):
            if self._closed:
                return None
            return Report(failed=f"its worker was stopped {MAX_RETRIES + 1} times")
        except ModuleNotFoundError as error:  # what the task raised, as Ray hands it on
            lacking = str(error).splitlines()[-1].removeprefix("ModuleNotFoundError: ")
            return Report(mistake=f"--executor ray: a worker says: {lacking}; expected bcrbench installed everywhere")
        except errors.RayTaskError:
            raise
        except errors.RayError as error:
            return Report(failed=f"its worker was lost {MAX_RETRIES + 1} times ({type(error).__name__})")


def _end(plan: Plan, report: Report) -> Ended:
    if report.log is None:
        return Ended(plan, why=report.failed)
    if not Path(report.log).exists():
        return Ended(plan, why=f"{report.log}: not seen by the driver, expected a path that all machines share")
    return Ended(plan, Path(report.log))


def _import(where: Where) -> Any:
    """Ray, told to keep to itself. Raises UserError with what to install."""
    for name, value in {**_ENVIRONMENT, **({} if where.address else _LOOPBACK)}.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise UserError(
            f"--executor ray: {error.name or 'ray'} is not installed, expected it: pip install 'bcrbench[ray]'"
        ) from error
    return ray


def _check_reachable(address: str | None) -> None:
    """Raise UserError for a HOST:PORT at which nobody answers: Ray itself would try for minutes, and say so."""
    if address in (None, "auto"):
        return
    host, _, port = str(address).removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise UserError(f"--address {told(address)}: expected auto or HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"--address {address}: {reason}, expected a running cluster (ray start --head)") from error


@contextmanager
def _cluster(ray: Any, where: Where, plans: list[Plan]) -> Iterator[bool]:
    """Join a cluster, or start one of this machine and stop it; gives whether it is our own. Raises UserError."""
    quiet = {"logging_level": "error", "log_to_driver": False, "include_dashboard": False}
    with ExitStack() as stack:
        if where.address is None:
            # Short, and not TMPDIR: paths of sockets lie below it, and may have 104 characters.
            short = "/tmp" if Path("/tmp").is_dir() else None
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="ray-", dir=short, ignore_cleanup_errors=True)
            )
            threads = max(plan.cell.settings.threads or 1 for plan in plans)
            quiet |= {
                "num_cpus": where.workers * threads if where.workers else max(_cores(), threads),
                "object_store_memory": OBJECT_STORE_BYTES,
                "_temp_dir": folder,
            }
        else:
            del quiet["include_dashboard"]  # the cluster's own affair
        try:
            ray.init(address=where.address or "local", **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            what = f"--address {where.address}" if where.address else "--executor ray: starting a local cluster"
            raise UserError(f"{what}: {reason}") from error
        stack.callback(ray.shutdown)
        yield where.address is None


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gpus(ray: Any, where: Where) -> float:
    """GPUs a run: as asked, else one where the cluster has any."""
    if where.num_gpus is not None:
        return where.num_gpus
    return 1.0 if ray.cluster_resources().get("GPU") else 0.0


def _check_room(nodes: list[dict[str, Any]], plans: list[Plan], gpus: float, local: bool, say: Say) -> None:
    """Raise UserError for a run that no machine has room for, or would not see its GPU; a cluster may still grow."""
    for settings in {plan.cell.settings.device: plan.cell.settings for plan in plans}.values():
        if settings.device.startswith("cuda") and not gpus:
            raise UserError(f"--device {settings.device}: no GPU is given to runs, expected --num-gpus above 0")
        if settings.device.startswith("cuda:"):
            raise UserError(f"--device {settings.device}: expected cuda or auto, Ray chooses each run's GPU")
    most = max((node["Resources"].get("GPU", 0.0) for node in nodes if node["Alive"]), default=0.0)
    wanting = any(plan.cell.settings.device != "cpu" for plan in plans)
    if wanting and gpus > most:
        line = f"--num-gpus {gpus:g}: the most that one machine has is {most:g}"
        if local:
            raise UserError(f"{line}, expected no more")
        say(f"{line}; waiting for one that has more")


def _markers(plans: list[Plan], stack: ExitStack) -> dict[str, str]:
    """A file in each run directory, by which workers see that it is shared. Raises UserError."""
    found = {}
    for out in {plan.cell.settings.out for plan in plans}:
        try:
            Path(out).mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=out, prefix=".driver-")
        except OSError as error:
            raise UserError(f"run directory {out}: cannot be written ({error.strerror})") from error
        os.close(handle)
        found[out] = str(Path(out) / Path(name).name)
        stack.callback(Path(found[out]).unlink, missing_ok=True)
    return found
