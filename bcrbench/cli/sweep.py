"""`bcrbench sweep`: a list of runs, from flags or a recipe, sharing one loaded model."""

from __future__ import annotations

from typing import Any, Callable, TypeVar

import click

from bcrbench.cli.options import executor_options, run_options
from bcrbench.sweep.axes import AXES
from bcrbench.sweep.executors.base import Where

F = TypeVar("F", bound=Callable[..., Any])


def _axis_options(command: F) -> F:
    """One option an axis."""
    for name, axis in reversed(AXES.items()):
        command = click.option(f"--{name}", metavar=axis.metavar, help=axis.help)(command)
    return command


@click.command(
    short_help="Run several conditions on the same items.",
    epilog="Examples: bcrbench sweep --gamma 0.3,1.0; bcrbench sweep table9 --model ./Llama --dry-run",
)
@click.argument("recipe", required=False)
@_axis_options
@click.option("--conditions", "typed", multiple=True, metavar="COND", help="A condition string; repeatable.")
@executor_options
@run_options
def sweep(recipe: str | None, typed: tuple[str, ...], where: Where, **flags: Any) -> None:
    """Run several conditions, Dense first; complete runs are skipped, partial ones resumed.

    Conditions come from --conditions, else from the RECIPE (a name or a YAML file). --gamma and --rho vary them: each
    takes several values, in the place of the one in every condition that has such a parameter.
    """
    from bcrbench.cli.running import run_plans
    from bcrbench.sweep.grid import expand

    axes = {name: flags.pop(name) for name in AXES}
    run_plans(expand(recipe, list(typed), flags, axes), flags["dry_run"], where)
