"""A bench: rounds in which every condition is served once, in one process, in an order that alternates.

A ratio of two conditions is taken within a round, so both saw the machine in nearly the same state; every other round
runs backwards, so that neither is always first. Each serving is one line of the log. A bench is never continued: times
of two processes do not pair.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from time import perf_counter
from typing import Any

from bcrbench.bench import machine, throughput
from bcrbench.bench.contestants import Measured, Ring
from bcrbench.bench.curve import Curve, Room, points, with_layers
from bcrbench.bench.options import REUSE, BenchOptions
from bcrbench.bench.workload import Workload, check_room, workloads
from bcrbench.engine.model import Runtime, find_source, load, load_config, memory_told
from bcrbench.errors import RunFailed
from bcrbench.reuse.arithmetic import pick
from bcrbench.runs.log import LogWriter, ensure_writable, log_name
from bcrbench.runs.memory import Meter, weight_bytes
from bcrbench.runs.provenance import code, device, host, packages
from bcrbench.runs.runner import Cancelled, Stop, stopping
from bcrbench.runs.schema import SCHEMA_VERSION, BenchRecord, RunRecord, Status
from bcrbench.runs.tally import Tally
from bcrbench.tasks.base import digest


@dataclass(frozen=True)
class Where:
    """The model, how it is loaded, and where the log goes."""

    model: str = "random:smollm2-135m"
    device: str = "auto"
    dtype: str = "auto"
    kernel: str = "auto"
    threads: int | None = None
    out: str = "runs/bench"


def check_bench(where: Where, options: BenchOptions) -> None:
    """Raise UserError, as `run_bench` would, for what the model has no positions for; loads no weights."""
    config = load_config(find_source(where.model))
    positions = getattr(config, "max_position_embeddings", None)
    check_room(options, positions, where.model)
    throughput.check_positions(options, positions, where.model)


def run_bench(where: Where, options: BenchOptions, say: Callable[[str], None]) -> Path:
    """Measure everything; returns the log. Raises UserError, RunFailed, and Cancelled after a stop was asked for."""
    check_bench(where, options)
    ensure_writable(where.out)
    with memory_told(f"loading model {where.model!r}"):
        runtime = load(where.model, where.device, where.dtype, where.kernel, where.threads)
        runtime.warm_up()
    room = Room.of(runtime, machine.free_bytes(runtime.device))
    options = with_layers(options, runtime, room)
    record = run_record(where, options, runtime)
    path = Path(where.out) / log_name(record.task, record.condition, 1, record.fingerprint)
    with LogWriter(path) as writer:
        writer.append(record)
        _Bench(runtime, options, room, writer, say).run()
    return path


def run_record(where: Where, options: BenchOptions, runtime: Runtime) -> RunRecord:
    """The first line; its fingerprint covers the start, as no two benches are the same measurement."""
    began = datetime.now(timezone.utc)
    model, versions = runtime.identity(), packages()
    effective = {"bench": True, **asdict(options)}
    cell = {"task": "bench", "model": model["weights_hash"], "dtype": model["dtype"], "agents": 1}
    matters = [effective, cell, model["config_hash"], asdict(where), versions, began.isoformat()]
    place = device(runtime.device)
    return RunRecord(
        schema_version=SCHEMA_VERSION,
        fingerprint=digest(matters),
        condition=options.condition,
        task="bench",
        cell=cell,
        given={},
        resolved={**asdict(where), **asdict(options)},
        effective=effective,
        model=model,
        tokenizer={},
        items={},
        prompts={},
        grader={},
        seeds={"ids": 0, "coin": 0},
        packages=versions,
        code=code(),
        device={
            **place,
            "model": machine.name_of(runtime.device),
            "warm_up_passes": runtime.warm_ups,
            "arithmetic": pick(runtime.device, runtime.dtype).name,
        },
        host=host(),
        started=began.isoformat(timespec="seconds"),
        stateful=False,
    )


class _Bench:
    """The measurements of one log."""

    def __init__(
        self, runtime: Runtime, options: BenchOptions, room: Room, writer: LogWriter, say: Callable[[str], None]
    ) -> None:
        self.runtime, self.options, self.room, self.writer, self.say = runtime, options, room, writer, say
        self.spent = 0.0
        self.meter = Meter(str(runtime.device))
        self.mark = perf_counter()

    def run(self) -> None:
        """Measure and close the log."""
        with stopping() as stop:
            try:
                with memory_told("serving prompts"):
                    for workload in workloads(self.options):
                        self._prompt(workload, stop)
                        gc.collect()  # ways of serving hold each other, and a pool has gigabytes
                    self._requests(stop)
                    gc.collect()
                    for rows in sorted(self.options.rows) if self.options.assembly else []:
                        self._curve(rows, stop)
            except RunFailed as error:
                self._end("failed", str(error))
                raise
            if stop.asked:
                self._end("cancelled", "stopped by the user")
                raise Cancelled
        self._end("complete", "")

    def _prompt(self, workload: Workload, stop: Stop) -> None:
        if stop.asked:
            return
        self.say(f"{workload.name}: filling a pool of {self.options.anchors}")
        self._rounds(workload.name, workload.tokens, Ring(self.runtime, workload, self.options), stop)

    def _requests(self, stop: Stop) -> None:
        if not self.options.throughput or stop.asked:
            return
        self.say(f"{throughput.NAME}: filling a pool of {self.options.anchors} for {self.options.agents} agents")
        self._rounds(throughput.NAME, 0, throughput.Office(self.runtime, self.options), stop)

    def _rounds(self, workload: str, tokens: int, ring: Ring | throughput.Office, stop: Stop) -> None:
        total = self.options.warm_up + self.options.repeat
        for number in range(total):
            self.say(f"{workload}: round {number + 1} of {total}")
            rates = machine.measure(self.runtime.device, self.runtime.dtype)
            order = list(ring.contestants)
            for place, name in enumerate(reversed(order) if number % 2 else order):
                if stop.asked:
                    return
                measured = ring.contestants[name]()
                at = {"prompt_tokens": measured.prompt_tokens or tokens, "base_ms": round(ring.base_ms, 4)}
                self._log(workload, name, measured, rates, round=number, place=place, **at)

    def _curve(self, rows: int, stop: Stop) -> None:
        """Points of one segment's length, each once a round: few anchors first, and every other round backwards."""
        kept = [anchors for anchors, fits in points(self.options, self.room, rows) if fits]
        left_out = sorted(set(self.options.pools) - set(kept))
        layers = self.options.layers or self.runtime.layers
        told = f"; no room for {', '.join(map(str, left_out))} anchors" if left_out else ""
        self.say(f"assembly: {rows} rows of {layers} layers{told}")
        if not kept or stop.asked:
            return
        curve = Curve(self.runtime, rows, max(kept), layers)
        rates = machine.measure(self.runtime.device, self.runtime.dtype)
        for number in range(self.options.warm_up + self.options.repeat):
            for place, anchors in enumerate(reversed(kept) if number % 2 else kept):
                if stop.asked:
                    return
                curve.hold(anchors)
                at = {"round": number, "place": place, "prompt_tokens": rows, "base_ms": 0.0}
                self._log(f"assembly={rows}x{anchors}", REUSE, curve.measure(), rates, **at)

    def _log(self, workload: str, name: str, measured: Measured, rates: machine.Rates, **at: Any) -> None:
        now = perf_counter()
        record = BenchRecord(
            workload=workload,
            condition=name,
            warm_up=at["round"] < self.options.warm_up,
            rows=measured.rows,
            new_tokens=measured.new_tokens,
            first_token=measured.first_token,
            ttft_ms=round(measured.ttft_ms, 4),
            ms=measured.ms,
            work=measured.work,
            calls=measured.calls,
            served_ms=round(measured.served_ms, 4),
            flops_per_s=rates.flops,
            bytes_per_s=rates.bytes,
            wall_s=round(now - self.mark, 4),
            **at,
        )
        self.mark = now
        self.spent += record.wall_s
        self.writer.append(record)

    def _end(self, status: Status, why: str) -> None:
        memory = self.meter.read(weight_bytes(self.runtime.model))
        self.writer.append(Tally(wall_s=round(self.spent, 4)).end(status, why, memory))
