"""`bcrbench stats`: every number from the logs, with its interval and its caveats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_CHOICE = [
    click.option(
        "--vs", metavar="CONDITION", help="Reference of the paired test, whole or its beginning.  [default: dense]"
    ),
    click.option(
        "--format",
        "fmt",
        type=click.Choice(["table", "md", "csv", "json", "latex"]),
        default="table",
        show_default=True,
        help="How to print. csv and json hold full precision, and fractions for percents.",
    ),
    click.option(
        "--grader", metavar="NAME", help="Use this grader's outcomes (see `bcrbench grade`), not the run's own."
    ),
    click.option(
        "--intersect", is_flag=True, help="Pair logs of unequal item sets on the items that all of them have."
    ),
]
_COLUMNS = [
    click.option("--difference", is_flag=True, help="Add the accuracy difference with Newcombe's 95 % interval."),
    click.option("--paired", is_flag=True, help="Add mid-p, the paired standard error and the difference."),
    click.option(
        "--family", type=click.Choice(["holm", "bonferroni"]), help="Add p adjusted for all tests of this report."
    ),
    click.option("--agents", is_flag=True, help="Add the accuracy of each role that has gold answers of its own."),
    click.option("--latency", is_flag=True, help="Add quartiles of times, speed-ups with intervals, and paired tests."),
    click.option("--memory", is_flag=True, help="Add each run's peak memory, and that of its weights and pool."),
]
_TESTS = [
    click.option(
        "--items-across-cells",
        "across",
        is_flag=True,
        help="Test conditions that ran the same items in several cells, on one net an item.",
    ),
    click.option("--cochran", is_flag=True, help="Test whether any condition of a cell differs (Cochran's Q)."),
    click.option("--power", type=click.IntRange(1), metavar="N", help="What N items would show, at the splits seen."),
    click.option("--sequential", is_flag=True, help="Where a run could have stopped early (test martingale)."),
]
_PAPER = [
    click.option("--table", metavar="N", help="Print the paper's table N, 1 to 15, from these logs."),
    click.option("--paper", is_flag=True, help="Put the paper's figures beside ours, with --table or a probe's log."),
    click.option("--paper-check", is_flag=True, help="Recompute the paper's figures from its counts; needs no logs."),
]
_RECIPE = [
    click.option(
        "--recipe",
        metavar="NAME",
        help="Print the tables and figures of a recipe from its logs, and whether the paper's claims hold.",
    ),
    click.option("--profile", metavar="NAME", help="Of the recipe: paper, demo, or auto.  [default: auto]"),
    click.option(
        "--save",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Also write each of them as md, csv, tex and json (claims and all), figures as PNG and PDF.",
    ),
]
_SHOWN = [
    click.option(
        "--html",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Also write one page to share: tables, figures, items.",
    ),
    click.option(
        "--plot",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Also draw figures: PNG, PDF and their data as CSV.",
    ),
]


def _options(command: F) -> F:
    for option in reversed([*_CHOICE, *_COLUMNS, *_TESTS, *_PAPER, *_RECIPE, *_SHOWN]):
        command = option(command)
    return command


@click.command("stats", short_help="Compare the conditions of run logs.")
@click.argument("logs", nargs=-1, type=click.Path(path_type=Path))
@_options
def stats(
    logs: tuple[Path, ...], fmt: str, recipe: str | None, profile: str | None, save: Path | None, **others: Any
) -> None:
    """Compare the conditions in LOGS: files, or directories of *.jsonl files.

    One row a condition: accuracy with its Wilson interval; b, the items that only the reference solves, and c, those
    that only this condition solves; the exact McNemar p; the share of calls served from reused rows; recomputed rows a
    call; medians of the time to the first token (by call) and of the whole (by item). Notes go to standard error.
    The log of a probe (`bcrbench repair --probe units`) gives one row a unit of choice, that of `bcrbench bench` times.

    \b
    bcrbench stats runs/*.jsonl --vs dense
    bcrbench stats runs --vs kvcomm:gamma=0.3 --difference --format md
    bcrbench stats runs --table 3 --paper
    bcrbench stats --recipe table3 --profile demo --save outputs
    bcrbench stats runs --html outputs/report.html --plot outputs
    """
    if recipe is None:
        _need_recipe(save=save, profile=profile)
        _compare(logs, fmt, **others)
    else:
        _print_recipe(fmt, recipe, others, profile=profile or "auto", logs=logs, save=save)


def _need_recipe(**options: Any) -> None:
    from bcrbench.errors import UserError

    for name, value in options.items():
        if value is not None:
            raise UserError(f"--{name} {str(value)!r}: has no meaning without --recipe, expected both")


def _print_recipe(fmt: str, recipe: str, others: dict[str, Any], **how: Any) -> None:
    from bcrbench.cli.recipe_stats import Asked, recipe_stats
    from bcrbench.stats.command import refuse

    own = {name: others[name] for name in ("grader", "intersect")}
    refuse({name: value for name, value in others.items() if name not in own}, f"--recipe {recipe}")
    for made, notes in recipe_stats(Asked(recipe, **how, **own)):
        _say(made.texts[fmt], notes)


def _compare(
    logs: tuple[Path, ...], fmt: str, table: str | None, paper: bool, paper_check: bool, html: Path | None,
    plot: Path | None, **asked: Any,
) -> None:  # fmt: skip
    from bcrbench.cli.logs import log_files
    from bcrbench.stats.command import check_paper, print_report, print_table
    from bcrbench.stats.reading import read_logs
    from bcrbench.stats.report import Options

    if paper_check:
        _say(*check_paper(fmt, {"LOGS": logs, "table": table, "paper": paper, "html": html, "plot": plot, **asked}))
        return
    if not logs:
        raise click.UsageError("Missing argument 'LOGS...'.")
    options = Options(**asked)
    paths = log_files(logs)
    shown = html is not None or plot is not None
    if shown:
        from bcrbench.stats.page.show import check_targets, read_for_figures, show

        check_targets(paths, html, plot)
        read, unread = read_logs(paths, read_for_figures)
    else:
        read, unread = read_logs(paths)
    made = print_report(read, options, fmt, paper) if table is None else print_table(table, read, options, fmt, paper)
    notes = [*unread, *made.notes]
    if shown:
        page_notes = notes if table is None else print_report(read, options, "table", False).notes
        notes = [*notes, *show(read, options, page_notes, html, plot)]
    _say(made.text, notes)


def _say(text: str, notes: list[str]) -> None:
    from bcrbench.errors import inert

    click.echo(text)
    for note in notes:
        click.echo(f"note: {inert(note)}", err=True)
