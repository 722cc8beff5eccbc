"""`bcrbench reuse`: KVComm as released, with its named deviations."""

from __future__ import annotations

from typing import Any

import click

from bcrbench.cli.options import run_options


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
@run_options
def reuse(gamma: float, frame: str, base: str, capacity: int, window: int, warm: int, **flags: Any) -> None:
    """Run items with shared segments served from the anchor pool where the gate allows it."""
    from bcrbench.cli.running import one_cell

    one_cell(flags, [f"kvcomm:gamma={gamma},frame={frame},base={base},capacity={capacity},window={window},warm={warm}"])
