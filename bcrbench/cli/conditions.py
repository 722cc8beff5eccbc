"""`bcrbench conditions`: what can be run, one line each."""

from __future__ import annotations

import click


@click.command()
def conditions() -> None:
    """List the conditions, their parameters with defaults, and the paper's section."""
    from dataclasses import fields

    from bcrbench.conditions import CONDITIONS
    from bcrbench.reuse.policies import POLICIES

    for name in CONDITIONS.names():
        condition = CONDITIONS.get(name)
        known = {spot.name: spot.default for spot in fields(POLICIES.get(name))}  # type: ignore[arg-type]
        parameters = ",".join(f"{key}={known[key]}" for key in condition.settable)
        click.echo(f"{name}:{parameters}\n    {condition.summary} ({condition.source})")
