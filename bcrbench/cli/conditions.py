"""`bcrbench conditions`: what can be run, one line each."""

from __future__ import annotations

import click


@click.command()
def conditions() -> None:
    """List the conditions, their parameters with defaults, and the paper's section."""
    from bcrbench.conditions import settings
    from bcrbench.reuse.policies import POLICIES

    for name in POLICIES.names():
        policy = POLICIES.get(name)
        parameters = ",".join(f"{spot.name}={spot.default}" for spot in settings(policy))
        click.echo(f"{name}:{parameters}" if parameters else name)
        click.echo(f"    {policy.summary} ({policy.source})")
