"""`bcrbench reuse`: KVComm as released, with its named deviations."""

from __future__ import annotations

from typing import Any

import click

from bcrbench.cli.options import run_options

_PARAMETERS = ("gamma", "frame", "base", "capacity", "window", "warm", "pool_gb", "pool")


@click.command(
    short_help="Run items with shared text served from other calls' caches.",
    epilog="Example: bcrbench reuse --gamma 1.0 --frame canonical --limit 60",
)
@click.option("--gamma", type=float, default=0.3, show_default=True, help="Gate threshold, 0 to 1 (paper Eq. 2).")
@click.option("--frame", default="released", show_default=True, help="Frame of key deviations: released, or canonical.")
@click.option("--base", default="header", show_default=True, help="What a base cache stands behind: header, or empty.")
@click.option("--capacity", type=int, default=20, show_default=True, help="Anchors a segment (as released, one more).")
@click.option("--window", type=int, default=5, show_default=True, help="Oldest anchors among which one is evicted.")
@click.option("--warm", type=int, default=0, show_default=True, help="Other items that fill the pool first.")
@click.option(
    "--pool-gb", type=float, default=0.0, show_default=True, help="Most that anchors hold, 1e9 bytes; 0: all."
)
@click.option("--pool", default="device", show_default=True, help="Where anchors lie: device, or host.")
@run_options
def reuse(**flags: Any) -> None:
    """Run items with shared segments served from the anchor pool where the gate allows it."""
    from bcrbench.cli.running import one_cell

    given = {name: flags.pop(name) for name in _PARAMETERS}
    one_cell(flags, ["kvcomm:" + ",".join(f"{name}={value}" for name, value in given.items())])
