"""`bcrbench prefill`: Dense, the ceiling that every other condition is paired with."""

from __future__ import annotations

from typing import Any

import click

from bcrbench.cli.options import run_options


@click.command(epilog="Example: bcrbench prefill --task gsm8k --data gsm8k_test.jsonl --model ./Llama --limit 60")
@click.option(
    "--tokens", type=click.Choice(["whole", "merged"]), default="whole", show_default=True,
    help="Tokenise the whole text, or keep the reuse path's merged ids (token-matched Dense).",
)  # fmt: skip
@run_options
def prefill(tokens: str, **flags: Any) -> None:
    """Run items with every call prefilled in full."""
    from bcrbench.cli.running import one_cell

    one_cell(flags, ["dense" if tokens == "whole" else "dense:tokens=merged"])
