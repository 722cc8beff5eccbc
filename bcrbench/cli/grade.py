"""`bcrbench grade`: grade finished logs with another grader of their task; no model is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from bcrbench.grading.regrade import Regrading
    from bcrbench.runs.log import Log
    from bcrbench.runs.schema import ItemRecord


@click.command("grade", short_help="Grade run logs with another grader.")
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--grader", "graders", metavar="NAME", multiple=True, help="Grader to apply; may be given many times.")
@click.option(
    "--allow-code-execution",
    "code",
    is_flag=True,
    help="Run the graded programs in the sandbox, on all cores. Without --grader, each log's own grader is applied.",
)
@click.option("--list", "listing", is_flag=True, help="List the graders of the logs' tasks, and change nothing.")
@click.option("--agreement", is_flag=True, help="Compare all graders of the logs' tasks, and change nothing.")
@click.option(
    "--format", "fmt", type=click.Choice(["table", "md", "csv", "json", "latex"]), default="table", show_default=True,
    help="How --agreement prints.",
)  # fmt: skip
def grade(
    logs: tuple[Path, ...], graders: tuple[str, ...], code: bool, listing: bool, agreement: bool, fmt: str
) -> None:
    """Append the gradings of LOGS (files, or directories of *.jsonl files) by the named graders.

    The run's own outcomes stay as they are; `bcrbench stats --grader NAME` uses the new ones. A grading that is there
    already, by the same version of the grader, is not made twice. A grading that fails by no fault of the answer is
    not written, and the command ends with 1.

    \b
    bcrbench grade runs/*.jsonl --list
    bcrbench grade runs/*.jsonl --grader strict
    bcrbench grade runs/humaneval.*.jsonl --allow-code-execution
    bcrbench grade runs/*.jsonl --agreement
    """
    from bcrbench.cli.logs import log_files
    from bcrbench.errors import inert
    from bcrbench.runs.log import read_log

    files = log_files(logs)
    read = [read_log(path) for path in files]
    if listing:
        click.echo("\n".join(inert(line) for log in read for line in _listed(log)))
    elif agreement:
        from bcrbench.cli.agreement import show_agreement

        show_agreement(files, fmt)
    else:
        _grade(read, graders, code)


def _grade(logs: list[Log[ItemRecord]], graders: tuple[str, ...], code: bool) -> None:
    """Apply the graders to every log, each log's own where none is named. All is checked before anything is written."""
    from bcrbench.errors import RunFailed, UserError, inert
    from bcrbench.grading.kit import Kit
    from bcrbench.grading.regrade import check_means, regrade

    if not graders and not code:
        raise UserError(
            "--grader: none given, expected the name of a grader (--list shows them), or --allow-code-execution for "
            "each log's own"
        )
    kit = Kit(code)
    work = [(log, name) for log in logs for name in graders or (str(log.run.grader.get("name")),)]
    for log, name in work:
        check_means(log, name, kit)
    if code:
        click.echo(f"sandbox: {kit.sandbox.told}", err=True)
    failed = []
    for log, name in work:
        try:
            click.echo(inert(_told(log.path, regrade(log.path, name, kit))))
        except RunFailed as error:
            failed.append(str(error))
    if failed:
        raise RunFailed("; ".join(failed))


def _listed(log: Log[ItemRecord]) -> list[str]:
    from bcrbench.grading.regrade import graders_of

    lines = [f"{log.path}: task {log.run.task}"]
    for name, grader in sorted(graders_of(log).items()):
        own = (name, grader.version) == (log.run.grader.get("name"), log.run.grader.get("version"))
        added = sum((grade.grader, grade.grader_version) == (name, grader.version) for grade in log.grades)
        told = [*(["the run's own"] if own else []), *([f"{added} items graded"] if added else [])]
        lines.append(f"  {name} v{grader.version}{': ' if told else ''}{', '.join(told)}")
    return lines


def _told(path: Path, made: Regrading) -> str:
    there = made.items - made.added
    done = f"{made.added} items graded" if made.added else "skipped, nothing new to grade"
    if there:
        done += f" ({there} there already)"
    share = f" ({100 * made.correct / made.items:.1f} %)" if made.items else ""
    agree = f"agrees with the run's outcome on {made.items - len(made.differ)}"
    shown = ", ".join(made.differ[:5]) + (", ..." if len(made.differ) > 5 else "")
    differ = f", differs on {len(made.differ)}: {shown}" if made.differ else ""
    return (
        f"{path}: {made.grader} v{made.version}: {done}; {made.correct} of {made.items} correct{share}; {agree}{differ}"
    )
