"""`bcrbench sweep`: a list of runs, from flags or a recipe, sharing one loaded model."""

from __future__ import annotations

from typing import Any

import click

from bcrbench.cli.options import run_options


@click.command(
    short_help="Run several conditions on the same items.",
    epilog="Examples: bcrbench sweep --gamma 0.3,1.0; bcrbench sweep table9 --model ./Llama --dry-run",
)
@click.argument("recipe", required=False)
@click.option("--gamma", metavar="G,G", help="Dense, and KVComm at each of these thresholds.")
@click.option("--conditions", "typed", multiple=True, metavar="COND", help="A condition string; repeatable.")
@run_options
def sweep(recipe: str | None, gamma: str | None, typed: tuple[str, ...], **flags: Any) -> None:
    """Run several conditions, Dense first; complete runs are skipped, partial ones resumed.

    Conditions come from --gamma and --conditions, else from the RECIPE (a name or a YAML file).
    """
    from bcrbench.cli.running import run_plans
    from bcrbench.sweep.grid import expand

    wanted = [*_from_gamma(gamma), *typed]
    run_plans(expand(recipe, wanted, flags), flags["dry_run"])


def _from_gamma(text: str | None) -> list[str]:
    if text is None:
        return []
    return ["dense", *(f"kvcomm:gamma={part.strip()}" for part in text.split(","))]
