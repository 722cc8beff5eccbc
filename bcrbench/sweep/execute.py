"""Carrying out planned runs in this process: one model load for all, one log file each (DESIGN 6, 10)."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable

import msgspec

from bcrbench.agents.request import Requests
from bcrbench.conditions import Spec, canonical
from bcrbench.engine.model import Runtime, load
from bcrbench.errors import RunFailed
from bcrbench.reuse.policies import Policy
from bcrbench.reuse.policies.repaired import Repaired
from bcrbench.runs.log import Log, LogWriter, log_name, read_log
from bcrbench.runs.matching import Finished
from bcrbench.runs.provenance import code, device, host, packages
from bcrbench.runs.runner import Run, carry_out
from bcrbench.runs.schema import SCHEMA_VERSION, ItemRecord, RunRecord
from bcrbench.sweep.plan import Plan
from bcrbench.sweep.progress import Reporter
from bcrbench.tasks.base import Item, digest


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
            self._runtime = load(*key)
            self._runtime.warm_up()
            self._key = key
        return self._runtime


def execute(plan: Plan, models: Models, say: Callable[[str], None]) -> Path:
    """Carry out one run, or what an earlier one left of it; returns its log.

    Raises UserError, RunFailed or Cancelled; the log then holds every finished item.
    """
    runtime = models.get(plan)
    folder = Path(plan.cell.settings.out)
    plan = matched(plan, Finished(folder, cell_facts(plan, runtime)))
    record = run_record(plan, runtime)
    path = folder / log_name(record.task, record.condition, plan.cell.settings.agents, record.fingerprint)
    with LogWriter(path) as writer:
        done = None if writer.fresh else read_log(path)
    if done is not None and done.status == "complete":
        say(f"{path}: complete, {len(done.items)} items; nothing to do")
        return path
    with LogWriter(path, reopen=True) as writer:
        _announce(say, path, done, len(plan.cell.items))
        run: Run[Item] = Run(record, plan.cell.items, _run_one(plan, runtime), repairs=_repairs(plan.spec.policy))
        carry_out(run, writer, done, Reporter(record.condition, len(plan.cell.items), say))
    return path


def _repairs(policy: Policy) -> bool:
    """Whether a policy is to repair calls; with a budget of 0 it is a control that repairs nothing."""
    return isinstance(policy, Repaired) and policy.budget() > 0


def _announce(say: Callable[[str], None], path: Path, done: Log[ItemRecord] | None, total: int) -> None:
    if done is None:
        say(f"{path}: {total} items")
    else:
        say(f"{path}: resuming after {len(done.items)} of {total} items ({done.status})")


def _run_one(plan: Plan, runtime: Runtime) -> Callable[[int, Item, ItemRecord | None], ItemRecord]:
    cell = plan.cell
    requests = Requests(
        runtime, cell.task, cell.agents, cell.prompts, plan.spec.policy, cell.grader, cell.max_new_tokens
    )

    def run_one(index: int, item: Item, replay: ItemRecord | None) -> ItemRecord:
        import torch

        try:
            return requests.run(index, item, replay)
        except torch.OutOfMemoryError as error:
            lengths = requests.longest()
            raise RunFailed(f"out of memory on item {index} ({item.id}); prompt tokens by agent: {lengths}") from error

    return run_one


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
        "mode": "matched",
    }
    items = {
        "hash": cell.items_hash,
        "count": len(cell.items),
        "total": cell.total,
        "order": "task",
        "limit": settings.limit,
        "ids": settings.ids,
    }
    where = cell_facts(plan, runtime)
    versions = packages()
    matters = {
        "schema": SCHEMA_VERSION,
        "condition": effective,
        "cell": where,
        "tokenizer": tokenizer,
        "prompts": prompts,
        "kernel": [model["kernel"], model["sdpa_backend"]],
        "device": runtime.device.type,
        "seed": settings.seed,
        "grader": [cell.grader.name, cell.grader.version],
        "versions": [versions["torch"], versions["transformers"], code()["version"]],
        "graph": [asdict(agent) for agent in cell.agents],
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
        device={**device(runtime.device), "warm_up_passes": runtime.warm_ups},
        host=host(),
        started=_now(),
        stateful=plan.spec.policy.pooled,
    )


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def describe(plans: list[Plan]) -> dict[str, Any]:
    """What `--dry-run` prints: settings, items and conditions, resolved."""
    cell = plans[0].cell
    return {
        "settings": msgspec.to_builtins(cell.settings),
        "items": {"count": len(cell.items), "total": cell.total, "hash": cell.items_hash, "first": cell.items[0].id},
        "agents": [asdict(agent) for agent in cell.agents],
        "grader": f"{cell.grader.name} v{cell.grader.version}",
        "max_new_tokens": cell.max_new_tokens,
        "conditions": [plan.spec.text for plan in plans],
    }
