"""`bcrbench sweep`: a list of runs, from flags or a recipe, sharing one loaded model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Callable, TypeVar

import click

from bcrbench.cli.options import executor_options, run_options
from bcrbench.sweep.axes import AXES
from bcrbench.sweep.executors.base import Where

if TYPE_CHECKING:
    from bcrbench.sweep.grid import Probe

F = TypeVar("F", bound=Callable[..., Any])


def _axis_options(command: F) -> F:
    """One option an axis."""
    for name, axis in reversed(AXES.items()):
        command = click.option(f"--{name}", metavar=axis.metavar, help=axis.help)(command)
    return command


def _each_once(command: click.Command) -> click.Command:
    """An axis takes the place of the shared option of its name, which takes one value."""
    first: dict[str, click.Parameter] = {}
    for parameter in command.params:
        first.setdefault(str(parameter.name), parameter)
    command.params = list(first.values())
    return command


@_each_once
@click.command(
    short_help="Run several conditions on the same items.",
    epilog="Examples: bcrbench sweep --gamma 0.3,1.0; bcrbench sweep table9 --model ./Llama --dry-run",
)
@click.argument("recipe", required=False)
@_axis_options
@click.option("--conditions", "typed", multiple=True, metavar="COND", help="A condition string; repeatable.")
@click.option(
    "--profile", default="paper", metavar="NAME",
    help="Of a recipe: paper, demo, or auto (paper on a CUDA device of 60 GB or more).  [default: paper]",
)  # fmt: skip
@executor_options
@run_options
def sweep(recipe: str | None, typed: tuple[str, ...], profile: str, where: Where, **flags: Any) -> None:
    """Run several conditions, Dense first; complete runs are skipped, partial ones resumed.

    Conditions come from --conditions, else from the RECIPE (a name or a YAML file). Options that take several values
    are axes: one cell each, or one more of every condition that has such a parameter, in the place of its value.
    """
    from bcrbench.cli.recipe_check import check_recipe
    from bcrbench.cli.running import run_plans
    from bcrbench.errors import RunFailed
    from bcrbench.sweep.grid import expand_all
    from bcrbench.sweep.profiles import chosen

    if recipe is not None:
        check_recipe(recipe)
    axes = {name: flags.pop(name) for name in AXES}
    made = expand_all(recipe, list(typed), flags, axes, chosen(profile))
    work: list[Callable[[], None]] = [partial(_measure, probe, flags["dry_run"]) for probe in made.probes]
    if made.plans:
        work.insert(0, partial(run_plans, made.plans, flags["dry_run"], where))
    failed = []
    for job in work:
        try:
            job()
        except RunFailed as error:
            failed.append(str(error))
    if failed:
        raise RunFailed("; ".join(failed))


def _measure(probe: Probe, dry_run: bool) -> None:
    """Make a recipe's probe, in this process whatever the executor, or say what it would be."""
    from bcrbench.probe.options import options_of

    options = options_of(probe.options)
    if dry_run:
        click.echo(f"probe {options.condition}  [{probe.settings.task}, {probe.settings.model}, {probe.settings.out}]")
        return
    from bcrbench.cli.running import say, stoppable
    from bcrbench.engine.quiet import quiet_libraries
    from bcrbench.probe.units import run_units

    quiet_libraries()
    with stoppable():
        click.echo(run_units(probe.settings, options, say))
