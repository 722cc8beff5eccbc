"""Carrying out planned runs in this process: one model load for all, one log file each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Callable, Sequence

import msgspec

from bcrbench.agents.prompt import build_template, encode
from bcrbench.agents.request import Requests
from bcrbench.conditions import Spec, canonical
from bcrbench.engine.model import Runtime, load, memory_told
from bcrbench.errors import RunFailed, RunRefused, UserError
from bcrbench.grading.verdict import runs_code
from bcrbench.reuse.arithmetic import pick
from bcrbench.reuse.policies import Policy
from bcrbench.reuse.policies.repaired import Repaired
from bcrbench.reuse.twin import Timing
from bcrbench.runs.log import Log, LogWriter, log_name, read_log
from bcrbench.runs.matching import Finished
from bcrbench.runs.memory import Meter, weight_bytes
from bcrbench.runs.provenance import code, device, host, packages
from bcrbench.runs.runner import Progress, Run, carry_out
from bcrbench.runs.schema import SCHEMA_VERSION, ItemRecord, RunRecord
from bcrbench.sweep.plan import Cell, Plan
from bcrbench.sweep.progress import Reporter
from bcrbench.tasks.base import Item, common_meta, digest, fixed_length, items_hash


class Models:
    """Keeps the last loaded model, so that runs that follow each other share it."""

    def __init__(self) -> None:
        self._key: tuple[Any, ...] | None = None
        self._runtime: Runtime | None = None

    def get(self, plan: Plan) -> Runtime:
        """The model of a plan, loaded if it is another than the last."""
        settings = plan.cell.settings
        key = (settings.model, settings.device, settings.dtype, settings.kernel, settings.threads)
        if self._runtime is None or key != self._key:
            self._runtime = None
            with memory_told(f"loading model {settings.model!r}"):
                self._runtime = load(*key)
                self._runtime.warm_up()
            self._key = key
        return self._runtime


def execute(
    plan: Plan,
    models: Models,
    say: Callable[[str], None],
    progress: Callable[[str, int, Callable[[str], None]], Progress] = Reporter,
) -> Path:
    """Carry out one run, or what an earlier one left of it; returns its log.

    Raises UserError, RunFailed or Cancelled; the log then holds every finished item.
    """
    runtime = models.get(plan)
    folder = Path(plan.cell.settings.out)
    plan = replace(plan, cell=plan.cell.spelled(runtime.tokenizer))
    with _of_this_run():
        plan = matched(plan, Finished(folder, cell_facts(plan, runtime)))
    check_prompts(plan.cell, runtime, plan.warm)
    record = run_record(plan, runtime)
    path = folder / log_name(record.task, record.condition, plan.cell.settings.agents, record.fingerprint)
    with _of_this_run():
        held = LogWriter(path)
    with held as writer:  # one lock for reading and writing, or another process could write in between
        with _of_this_run():
            done = None if writer.fresh else own_log(path, record)
        if done is not None and done.status == "complete":
            say(f"{path}: complete, {len(done.items)} items; nothing to do")
            return path
        writer.reopen()
        _announce(say, path, done, len(plan.cell.items))
        if record.tools.get("code"):
            say(f"{path}: generated programs run in the sandbox: {plan.cell.kit.sandbox.told}")
        meter = Meter(str(runtime.device))
        requests = _requests(plan, runtime)
        memory = partial(meter.read, weight_bytes(runtime.model), requests.server.pool)
        repairs, before = _repairs(plan.spec.policy), [partial(_fill, requests, item) for item in plan.warm]
        if before:
            say(f"{path}: {len(before)} other items first, to fill the pool")
        run: Run[Item] = Run(record, plan.cell.items, _run_one(requests), repairs, before, memory)
        carry_out(run, writer, done, progress(record.condition, len(plan.cell.items), say))
    if runs_code(plan.cell.grader) and not plan.cell.kit.code:
        say(f"{path}: the programs in its answers were not run; bcrbench grade LOG --allow-code-execution grades them")
    return path


@contextmanager
def _of_this_run() -> Iterator[None]:
    """What is wrong here is wrong with one run's files, not with what was asked."""
    try:
        yield
    except RunRefused:
        raise
    except UserError as error:
        raise RunRefused(str(error)) from error


def check_prompts(cell: Cell, runtime: Runtime, others: Sequence[Item] = ()) -> None:
    """Raise UserError, before anything is written, for a template that cannot be made or an item that cannot fit.

    Only what is known beforehand is counted: the agent's own text and the question; of generations of a fixed length,
    those that the agent hears and its own.
    """
    templates = [build_template(runtime.tokenizer, cell.prompts, agent, cell.agents) for agent in cell.agents]
    answer = cell.max_new_tokens - 1 if fixed_length(cell.task) else 0  # the last token never enters a cache
    known = {t.agent.id: sum(map(len, t.fixed)) + answer * (len(t.agent.hears) + 1) for t in templates}
    longest, own = max(known.items(), key=lambda entry: entry[1])
    for item in [*cell.items, *others] if runtime.positions is not None else []:
        rows = own + len(encode(runtime.tokenizer, item.question))
        if rows > (runtime.positions or rows):
            raise UserError(
                f"item {item.id!r}: agent {longest}'s prompt{' and answer have' if answer else ' has'} {rows} tokens "
                "or more, expected at most "
                f"{runtime.positions}, the positions of model {runtime.source.spec!r}"
            )


def own_log(path: Path, record: RunRecord) -> Log[ItemRecord]:
    """The log at a run's path. Raises UserError for another run's: a file may have been renamed or edited."""
    log = read_log(path)
    if log.run.fingerprint != record.fingerprint:
        raise UserError(
            f"{path}: holds the run {log.run.condition!r} with fingerprint {log.run.fingerprint}, "
            f"expected {record.fingerprint}; move it away"
        )
    return log


def _repairs(policy: Policy) -> bool:
    """Whether a policy is to repair calls; with a budget of 0 it is a control that repairs nothing."""
    return isinstance(policy, Repaired) and policy.budget() > 0


def _announce(say: Callable[[str], None], path: Path, done: Log[ItemRecord] | None, total: int) -> None:
    if done is None:
        say(f"{path}: {total} item{'s' * (total != 1)}")
    else:
        say(f"{path}: resuming after {len(done.items)} of {total} items ({done.status})")


def _requests(plan: Plan, runtime: Runtime) -> Requests:
    cell = plan.cell
    with memory_told("preparing the agents' prompts"):
        return Requests(
            runtime,
            cell.task,
            cell.agents,
            cell.prompts,
            plan.spec.policy,
            cell.grader,
            cell.max_new_tokens,
            cell.kit,
            _timing(cell),
        )


def _fill(requests: Requests, item: Item) -> None:
    with _explained(f"item {item.id}, which fills the pool", requests):
        requests.fill(item)


def _run_one(requests: Requests) -> Callable[[int, Item, ItemRecord | None], ItemRecord]:
    def run_one(index: int, item: Item, replay: ItemRecord | None) -> ItemRecord:
        with _explained(f"item {index} ({item.id})", requests):
            return requests.run(index, item, replay)

    return run_one


@contextmanager
def _explained(what: str, requests: Requests) -> Iterator[None]:
    """Says in what a failure happened, and how long the prompts were."""
    try:
        with memory_told("running it"):
            yield
    except RunFailed as error:
        raise RunFailed(f"{what}: {error}; prompt tokens by agent: {requests.longest()}") from error


def _timing(cell: Cell) -> Timing:
    return Timing(bool(cell.settings.twins), cell.settings.warm_up or 0)


def matched(plan: Plan, finished: Finished) -> Plan:
    """The plan with what its condition is matched to read from finished runs."""
    policy = plan.spec.policy.resolve(finished)
    return replace(plan, spec=Spec(canonical(plan.spec.text.partition(":")[0], policy), policy))


def cell_facts(plan: Plan, runtime: Runtime) -> dict[str, Any]:
    """Task, model, agents, roles and item set: conditions are compared inside a cell."""
    cell, settings = plan.cell, plan.cell.settings
    model = runtime.identity()
    return {
        "task": cell.task.name,
        "model": model["weights_hash"],
        "agents": settings.agents,
        "topology": settings.topology,
        "roles": [agent.role for agent in cell.agents],
        "items": cell.items_hash,
        "max_new_tokens": cell.max_new_tokens,
        "dtype": model["dtype"],
    }


def run_record(plan: Plan, runtime: Runtime) -> RunRecord:
    """The first line of a run's log; its fingerprint covers everything that can change an outcome."""
    cell, settings = plan.cell, plan.cell.settings
    model = runtime.identity()
    tokenizer = runtime.tokenizer_identity()
    effective = plan.spec.policy.effective()
    prompts = {
        "name": cell.prompts.name,
        "version": cell.prompts.version,
        "hash": digest(msgspec.to_builtins(cell.prompts)),
        "mode": plan.spec.policy.prompts,
    }
    if cell.spelling is not None:
        prompts["spelling"] = cell.spelling
    items = {
        **common_meta(cell.items),
        "hash": cell.items_hash,
        "count": len(cell.items),
        "total": cell.total,
        "order": settings.order,
        "limit": settings.limit,
        "ids": settings.ids,
    }
    if plan.warm:
        items["warm"] = {"ids": [item.id for item in plan.warm], "hash": items_hash(plan.warm)}
    where = cell_facts(plan, runtime)
    versions = packages()
    arithmetic = pick(runtime.device, runtime.dtype).name if plan.spec.policy.pooled else None
    matters = {
        "schema": SCHEMA_VERSION,
        "condition": effective,
        "cell": where,
        "tokenizer": tokenizer,
        "prompts": prompts,
        "config": model["config_hash"],
        "kernel": [model["kernel"], model["sdpa_backend"]],
        "arithmetic": arithmetic,
        "device": runtime.device.type,
        "seed": settings.seed,
        "tools": cell.means,
        "timing": asdict(_timing(cell)),
        "grader": [cell.grader.name, cell.grader.version],
        "versions": [versions["torch"], versions["transformers"], code()["version"]],
        "graph": [asdict(agent) for agent in cell.agents],
        **({"warm": items_hash(plan.warm)} if plan.warm else {}),
    }
    return RunRecord(
        schema_version=SCHEMA_VERSION,
        fingerprint=digest(matters),
        condition=plan.spec.text,
        task=cell.task.name,
        cell=where,
        given=plan.given,
        resolved=msgspec.to_builtins(settings),
        effective=effective,
        model=model,
        tokenizer=tokenizer,
        items=items,
        prompts=prompts,
        grader={"name": cell.grader.name, "version": cell.grader.version},
        seeds={"run": settings.seed},
        packages=versions,
        code=code(),
        device={**device(runtime.device), "warm_up_passes": runtime.warm_ups, "arithmetic": arithmetic},
        host=host(),
        started=_now(),
        stateful=plan.spec.policy.pooled,
        tools=cell.kit.identity() if any(cell.means) else {},
    )


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def describe(plans: list[Plan]) -> dict[str, Any]:
    """What `--dry-run` prints: settings, items and conditions, resolved."""
    cell = plans[0].cell
    return {
        "settings": msgspec.to_builtins(cell.settings),
        "items": {"count": len(cell.items), "total": cell.total, "hash": cell.items_hash, "first": cell.items[0].id},
        **({"spelling": cell.spelling} if cell.spelling is not None else {}),
        "agents": [asdict(agent) for agent in cell.agents],
        "grader": f"{cell.grader.name} v{cell.grader.version}",
        "max_new_tokens": cell.max_new_tokens,
        "conditions": [plan.spec.text for plan in plans],
    }
