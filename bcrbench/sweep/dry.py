"""`--dry-run`: everything resolved and the first prompt shown, with no model loaded."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from bcrbench.agents.prompt import build_template
from bcrbench.agents.request import describe_first
from bcrbench.engine.model import find_source, load_tokenizer
from bcrbench.sweep.execute import describe
from bcrbench.sweep.plan import Cell, Plan


def show(plans: list[Plan]) -> None:
    """Print each cell's resolved settings and its first prompt's segments with ids."""
    cells: dict[int, list[Plan]] = {}
    for plan in plans:
        cells.setdefault(id(plan.cell), []).append(plan)
    for group in cells.values():
        tokenizer = load_tokenizer(find_source(group[0].cell.settings.model))
        group[0] = replace(group[0], cell=group[0].cell.spelled(tokenizer))
        click.echo(json.dumps(describe(group), indent=2, ensure_ascii=False))
        for segment in first_prompt(group[0].cell, tokenizer):
            click.echo(f"{segment['segment']:<10} [{segment['start']}, {segment['end']}) {segment['text']!r}")
            click.echo(f"{'':<10} {segment['ids']}")
    click.echo(f"{len(plans)} run{'s' * (len(plans) != 1)}; nothing was run")


def first_prompt(cell: Cell, tokenizer: Any) -> list[dict[str, Any]]:
    """The first agent's prompt on the first item."""
    agent = cell.agents[0]
    template = build_template(tokenizer, cell.prompts, agent, cell.agents)
    return describe_first(template, cell.items[0], tokenizer)
