"""A plan as data, for a worker that shares nothing with the driver but files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec

import bcrbench
from bcrbench.conditions import parse
from bcrbench.errors import UserError
from bcrbench.runs.provenance import packages
from bcrbench.settings import Settings
from bcrbench.sweep.plan import Plan, plan_cell
from bcrbench.tasks.base import digest, items_hash


class Ticket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings, condition and what was given: enough to plan the run anew, with no model and no object inside.

    `folder` is where the driver's paths begin, `marker` a file that must be seen from there, `facts` what the worker's
    own plan must agree on with the driver's.
    """

    settings: Settings
    condition: str
    given: dict[str, Any]
    facts: dict[str, str]
    folder: str
    marker: str = ""


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a worker's run ended: its log, or why it failed, or a person's mistake; and what it said meanwhile."""

    log: str | None = None
    failed: str = ""
    mistake: str = ""
    said: list[str] = []


def issue(plan: Plan, folder: str, marker: str = "") -> Ticket:
    """Write a plan down."""
    return Ticket(plan.cell.settings, plan.spec.text, plan.given, facts(plan), folder, marker)


def replan(ticket: Ticket) -> Plan:
    """Plan a ticket's run on this machine. Raises UserError when that is another run than the driver's."""
    plan = Plan(plan_cell(ticket.settings), parse(ticket.condition), ticket.given)
    here = facts(plan)
    for name in sorted({*here, *ticket.facts}):
        ours, theirs = here.get(name), ticket.facts.get(name)
        if ours != theirs:
            raise UserError(
                f"{ticket.condition}: a worker has {name} {ours}, the driver {theirs}; "
                "expected the same package and files on all machines"
            )
    return plan


def facts(plan: Plan) -> dict[str, str]:
    """What a run's fingerprint covers (sweep/execute.py), as far as it is known without the model, by name."""
    cell, versions = plan.cell, packages()
    return {
        "settings": digest(msgspec.to_builtins(cell.settings)),
        "condition": digest(plan.spec.policy.effective()),
        "items": cell.items_hash,
        "items that fill the pool": items_hash(plan.warm),
        "agents": digest([asdict(agent) for agent in cell.agents]),
        "prompts": digest(msgspec.to_builtins(cell.prompts)),
        "grader": f"{cell.grader.name} v{cell.grader.version}",
        "tools": digest(cell.means),
        "new tokens": str(cell.max_new_tokens),
        "bcrbench": bcrbench.__version__,
        **{name: _release(versions[name]) for name in ("torch", "transformers")},
    }


def _release(version: str) -> str:
    """A version without its build: a driver without a GPU may have the CPU's."""
    return version.partition("+")[0]
