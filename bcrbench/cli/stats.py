"""`bcrbench stats`: every number from the logs, with its interval and its caveats."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("stats", short_help="Compare the conditions of run logs.")
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--vs", metavar="CONDITION", help="Reference of the paired test, whole or its beginning.  [default: dense]"
)
@click.option(
    "--format", "fmt", type=click.Choice(["table", "md", "csv", "json", "latex"]), default="table", show_default=True,
    help="How to print. csv and json hold full precision, and fractions for percents.",
)  # fmt: skip
@click.option("--grader", metavar="NAME", help="Use this grader's outcomes (see `bcrbench grade`), not the run's own.")
@click.option("--intersect", is_flag=True, help="Pair logs of unequal item sets on the items that all of them have.")
@click.option("--difference", is_flag=True, help="Add the accuracy difference with Newcombe's 95 % interval.")
@click.option("--agents", is_flag=True, help="Add the accuracy of each role that has gold answers of its own.")
@click.option("--latency", is_flag=True, help="Add quartiles and means of times, and speed-ups.")
@click.option("--paper", is_flag=True, help="Put the paper's figures beside those of a probe (Table 8).")
def stats(
    logs: tuple[Path, ...], vs: str | None, fmt: str, grader: str | None, intersect: bool, difference: bool,
    agents: bool, latency: bool, paper: bool,
) -> None:  # fmt: skip
    """Compare the conditions in LOGS: files, or directories of *.jsonl files.

    One row a condition: accuracy with its Wilson interval; b, the items that only the reference solves, and c, those
    that only this condition solves; the exact McNemar p; the share of calls served from reused rows; recomputed rows a
    call; medians of the time to the first token (by call) and of the whole (by item). Notes go to standard error.
    The log of a probe (`bcrbench repair --probe units`) gives one row a unit of choice.

    \b
    bcrbench stats runs/*.jsonl --vs dense
    bcrbench stats runs --vs kvcomm:gamma=0.3 --difference --format md
    """
    from bcrbench.cli.logs import log_files
    from bcrbench.errors import inert
    from bcrbench.runs.log import read_outcomes
    from bcrbench.stats.report import Options
    from bcrbench.stats.units import report_all

    options = Options(vs=vs, intersect=intersect, grader=grader, difference=difference, agents=agents, latency=latency)
    made = report_all([read_outcomes(path) for path in log_files(logs)], options, fmt, paper)
    click.echo(made.text)
    for note in made.notes:
        click.echo(f"note: {inert(note)}", err=True)
