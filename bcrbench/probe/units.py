"""The unit-of-choice probe: what choosing well is worth as the unit of choice grows (paper section 4.2, Table 8).

From a reused cache of one long segment, a nominal share of its rows is restored in units of 1 to all rows, chosen by
the draft's attention or by a coin, by transplanting from Dense or by recomputing in place; what is left is measured
(bcrbench/probe/reused.py). Every measurement is one line of a log, which `bcrbench stats` makes into Table 8.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Callable, Literal

import msgspec
import torch

from bcrbench.agents.request import ids_hash
from bcrbench.conditions import Spec, canonical
from bcrbench.engine.model import Runtime, find_source, load_tokenizer
from bcrbench.errors import RunFailed
from bcrbench.probe.choice import choose
from bcrbench.probe.consumer import Consumer, room_of
from bcrbench.probe.options import UnitOptions
from bcrbench.probe.reused import ReusedSegment
from bcrbench.probe.texts import Text, long_texts
from bcrbench.repair.selectors import SELECTORS
from bcrbench.reuse.policies.kvcomm import KVComm
from bcrbench.runs.log import LogWriter, ensure_writable, log_name
from bcrbench.runs.runner import Cancelled, Stop, stopping
from bcrbench.runs.schema import ProbeRecord, RunRecord, Status
from bcrbench.runs.tally import Tally
from bcrbench.settings import Settings
from bcrbench.sweep.execute import Models, own_log, run_record
from bcrbench.sweep.plan import Plan, plan_cell
from bcrbench.tasks.base import digest

Chooser = Literal["none", "attention", "coin", "all"]
Operator = Literal["none", "transplant", "recompute"]
_SELECTORS = {"attention": "draft", "coin": "coin"}


@dataclass(frozen=True)
class Variant:
    """One way of restoring part of a segment."""

    unit: int
    chooser: Chooser
    operator: Operator
    seed: int | None = None


def variants(options: UnitOptions) -> list[Variant]:
    """All ways to measure on a prompt: nothing restored, every unit both ways by both operators, everything."""
    operators: tuple[Operator, ...] = ("transplant", "recompute")
    made = [Variant(0, "none", "none")]
    for unit in (unit for unit in options.units if unit < options.segment_tokens):
        made += [Variant(unit, "attention", operator) for operator in operators]
        made += [Variant(unit, "coin", operator, seed) for operator in operators for seed in options.seeds]
    return [*made, *(Variant(options.segment_tokens, "all", operator) for operator in operators)]


def check_units(settings: Settings, options: UnitOptions) -> None:
    """Raise UserError, as `run_units` would, for a segment that fits neither model nor items; loads no weights."""
    cell = plan_cell(settings)
    tokenizer = load_tokenizer(find_source(settings.model))
    room_of(settings.model, tokenizer, cell.prompts, cell.agents).check(options.segment_tokens, options.k)
    long_texts(tokenizer, cell.items, options.anchors + options.prompts, options.segment_tokens)


def run_units(settings: Settings, options: UnitOptions, say: Callable[[str], None]) -> Path:
    """Measure every variant on every prompt, or what an earlier call left of it; returns the log.

    Raises UserError for a segment that fits neither model nor items, RunFailed, and Cancelled after a stop was asked
    for; the log then holds all finished measurements, and the same call continues it.
    """
    cell = plan_cell(settings)
    ensure_writable(settings.out)
    policy = KVComm(gamma=options.gamma)
    plan = Plan(cell, Spec(canonical("kvcomm", policy), policy), _given(settings, options))
    runtime = Models().get(plan)
    consumer = Consumer(runtime, policy, cell.prompts, cell.agents)
    consumer.check_length(options.segment_tokens, options.k)
    texts = long_texts(runtime.tokenizer, cell.items, options.anchors + options.prompts, options.segment_tokens)
    record = _record(plan, runtime, consumer, options, texts)
    path = Path(settings.out) / log_name(record.task, record.condition, settings.agents, record.fingerprint)
    with LogWriter(path) as writer:
        done = None if writer.fresh else own_log(path, record)
        if done is not None and done.status == "complete":
            say(f"{path}: complete, {len(done.probes)} measurements; nothing to do")
            return path
        writer.reopen()
        if done is None:
            writer.append(record)
        _Probe(consumer, options, texts, writer, say, done.probes if done is not None else []).run()
    return path


def _given(settings: Settings, options: UnitOptions) -> dict[str, Any]:
    """Settings and options that are not the defaults."""
    plain, usual = msgspec.to_builtins(Settings()), asdict(UnitOptions())
    return {
        **{name: value for name, value in msgspec.to_builtins(settings).items() if value != plain[name]},
        **{name: value for name, value in asdict(options).items() if value != usual[name]},
        "probe": "units",
    }


def _record(plan: Plan, runtime: Runtime, consumer: Consumer, options: UnitOptions, texts: list[Text]) -> RunRecord:
    """A run's record, with the probe in the condition's place."""
    record = run_record(plan, runtime)
    effective = {
        "probe": "units",
        **asdict(options),
        "reuse": record.effective,
        "role": consumer.agent.role,
        "texts": [[text.first, text.last] for text in texts],
    }
    return msgspec.structs.replace(
        record,
        condition=options.condition,
        effective=effective,
        fingerprint=digest([record.fingerprint, effective]),
        seeds={**record.seeds, "coin": list(options.seeds)},
        stateful=False,  # prompts are reused from one pool, which they leave as it was
    )


class _Probe:
    """The measurements that a log still owes."""

    def __init__(
        self,
        consumer: Consumer,
        options: UnitOptions,
        texts: list[Text],
        writer: LogWriter,
        say: Callable[[str], None],
        done: list[ProbeRecord],
    ) -> None:
        self.consumer, self.options, self.writer, self.say = consumer, options, writer, say
        self.anchors, self.prompts = texts[: options.anchors], texts[options.anchors :]
        self.finished = {(r.prompt, Variant(r.unit, r.chooser, r.operator, r.seed)): r.wall_s for r in done}
        self.mark = perf_counter()

    def run(self) -> None:
        """Measure and close the log."""
        with stopping() as stop:
            try:
                self._measure_owed(stop)
            except torch.OutOfMemoryError as error:
                told = f"out of memory on a segment of {self.options.segment_tokens} tokens"
                self._end("failed", told)
                raise RunFailed(told) from error
            except RunFailed as error:
                self._end("failed", str(error))
                raise
            if len(self.finished) < len(self.prompts) * len(variants(self.options)):
                self._end("cancelled", "stopped by the user")
                raise Cancelled
        self._end("complete", "")

    def _measure_owed(self, stop: Stop) -> None:
        filled = False
        for number, text in enumerate(self.prompts):
            owed = [way for way in variants(self.options) if (number, way) not in self.finished]
            if owed and not filled:
                filled = self._fill_pool(stop)
            if owed and not stop.asked:
                self._measure(number, text, owed, stop)

    def _fill_pool(self, stop: Stop) -> bool:
        for number, text in enumerate(self.anchors):
            if not stop.asked:
                self.say(f"anchor {number + 1} of {len(self.anchors)}")
                self.consumer.learn(f"anchor-{number}", text.ids)
        return True

    def _measure(self, number: int, text: Text, owed: list[Variant], stop: Stop) -> None:
        self.say(f"prompt {number + 1} of {len(self.prompts)}: {len(owed)} measurements")
        reused = self.consumer.reuse(f"prompt-{number}", text.ids, self.options.k, number)
        for way in owed:
            if stop.asked:
                return
            self._log(number, way, reused, *measure(reused, way, self.options.rho))

    def _log(self, number: int, way: Variant, reused: ReusedSegment, rows: int, error: float) -> None:
        now = perf_counter()
        record = ProbeRecord(
            prompt=number,
            prompt_hash=ids_hash(reused.view.ids),
            unit=way.unit,
            chooser=way.chooser,
            operator=way.operator,
            seed=way.seed,
            rows=rows,
            segment=reused.segment.length,
            budget=rows / reused.segment.length,
            error=error,
            wall_s=round(now - self.mark, 4),
        )
        self.mark = now
        self.writer.append(record)
        self.finished[number, way] = record.wall_s

    def _end(self, status: Status, why: str) -> None:
        total = round(sum(self.finished.values()), 4)
        self.writer.append(Tally(wall_s=total).end(status, why))


def measure(reused: ReusedSegment, way: Variant, rho: float) -> tuple[int, float]:
    """Rows that a variant restores, and the error it leaves."""
    reused.reset()
    rows = rows_of(reused, way, rho)
    reused.restore(rows, way.operator)
    return len(rows), reused.error()


def rows_of(reused: ReusedSegment, way: Variant, rho: float) -> list[int]:
    """The rows that a variant restores, ascending. The segment must be as predicted: the draft looks at it."""
    if way.chooser == "none":
        return []
    if way.chooser == "all":
        return list(range(reused.segment.start, reused.segment.end))
    reused.view.seed = way.seed or 0
    return choose(reused.view, reused.segment, way.unit, rho, SELECTORS.get(_SELECTORS[way.chooser])())
