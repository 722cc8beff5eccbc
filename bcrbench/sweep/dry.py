"""`--dry-run`: everything resolved and the first prompt shown, or a recipe's runs listed, with no model loaded."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from bcrbench.agents.prompt import build_template
from bcrbench.agents.request import describe_first
from bcrbench.engine.model import find_source, load_tokenizer
from bcrbench.engine.quiet import quiet_libraries
from bcrbench.sweep.execute import describe
from bcrbench.sweep.item_order import TASK
from bcrbench.sweep.plan import Cell, Plan


def show(plans: list[Plan]) -> None:
    """Print each cell's resolved settings and its first prompt's segments with ids; of a recipe, one line a run."""
    if any("recipe" in plan.given for plan in plans):
        _list(plans)
    else:
        _show_cells(plans)
    click.echo(f"{len(plans)} run{'s' * (len(plans) != 1)}; nothing was run")


def _list(plans: list[Plan]) -> None:
    """The runs in their order. Reads no tokenizer: a recipe may name models and data that are not here."""
    for model, out in dict.fromkeys((plan.cell.settings.model, plan.cell.settings.out) for plan in plans):
        click.echo(f"model {model}, logs in {out}")
    width = len(str(len(plans)))
    for number, plan in enumerate(plans, 1):
        cell, settings = plan.cell, plan.cell.settings
        count = settings.limit if cell.unread is not None else len(cell.items)
        where = [cell.task.name, *([cell.settings.data] if cell.unread is None and settings.data else [])]
        where += [f"{settings.agents} agents", settings.topology, f"roles {settings.roles}"]
        where += [f"{'all' if count is None else count} items"]
        where += [f"kernel {settings.kernel}"] if settings.kernel != "auto" else []
        where += [f"order {settings.order}"] if settings.order != TASK else []
        where += [f"seed {settings.seed}"] if settings.seed else []
        click.echo(f"{number:>{width}}  {plan.spec.text}  [{', '.join(map(str, where))}]")
    for data in dict.fromkeys(plan.cell.unread for plan in plans if plan.cell.unread is not None):
        click.echo(f"note: items of {data} are read at run time, none were now")


def _show_cells(plans: list[Plan]) -> None:
    cells: dict[int, list[Plan]] = {}
    for plan in plans:
        cells.setdefault(id(plan.cell), []).append(plan)
    for group in cells.values():
        quiet_libraries()
        tokenizer = load_tokenizer(find_source(group[0].cell.settings.model))
        group[0] = replace(group[0], cell=group[0].cell.spelled(tokenizer))
        click.echo(json.dumps(describe(group), indent=2, ensure_ascii=False))
        for segment in first_prompt(group[0].cell, tokenizer):
            click.echo(f"{segment['segment']:<10} [{segment['start']}, {segment['end']}) {segment['text']!r}")
            click.echo(f"{'':<10} {segment['ids']}")


def first_prompt(cell: Cell, tokenizer: Any) -> list[dict[str, Any]]:
    """The first agent's prompt on the first item."""
    agent = cell.agents[0]
    template = build_template(tokenizer, cell.prompts, agent, cell.agents)
    return describe_first(template, cell.items[0], tokenizer)
