"""`bcrbench conditions`: what can be run, one line each; the parameters of one."""

from __future__ import annotations

import click


@click.command(short_help="List the conditions, or one's parameters.", epilog="Example: bcrbench conditions bcr-grow")
@click.argument("name", required=False)
def conditions(name: str | None) -> None:
    """List the conditions with the paper's section, or NAME's parameters, defaults and bounds."""
    from bcrbench.reuse.policies import POLICIES

    if name is not None:
        _parameters(name)
        return
    width = max(map(len, POLICIES.names()))
    for known in POLICIES.names():
        policy = POLICIES.get(known)
        click.echo(f"{known:<{width}}  {policy.summary} ({policy.source})")


def _parameters(name: str) -> None:
    from typing import get_args, get_type_hints

    from bcrbench.conditions import parse, settings
    from bcrbench.reuse.policies import POLICIES

    policy = POLICIES.get(name)
    hints = get_type_hints(policy)
    click.echo(f"{parse(name).text}: {policy.summary} ({policy.source})")
    for spot in settings(policy):
        low, high = spot.metadata["low"], spot.metadata["high"]
        choices = get_args(hints[spot.name])
        bounds = " | ".join(choices) if choices else f"{low} to {high}" if low is not None else spot.metadata["told"]
        click.echo(f"  {spot.name}={spot.default}  {bounds}")
