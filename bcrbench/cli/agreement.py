"""`bcrbench grade --agreement`: how far the graders of the logs' tasks agree; nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bcrbench.grading.agreement import Agreement

Row = dict[str, Any]


def show_agreement(paths: Iterable[Path], fmt: str) -> None:
    """Print the comparison of all graders on the logs' answers, in a format of `bcrbench.stats.tables.FORMATS`.

    Raises UserError for a path that holds no log, a log that cannot be read, and a task that is not known here.
    """
    import click

    from bcrbench.cli.logs import log_files
    from bcrbench.grading.agreement import agreements
    from bcrbench.runs.log import read_log
    from bcrbench.stats.tables import Table, render_records, render_tables

    made = agreements([read_log(path) for path in log_files(paths)])
    if fmt in ("json", "csv"):
        click.echo(render_records(_records(made), fmt))
        return
    tables = [Table(title, rows) for one in made for title, rows in _titled(one) if rows]
    click.echo(render_tables(tables, fmt))


def _records(made: Sequence[Agreement]) -> list[Row]:
    """All rows in one list, each with its task and which table it is of."""
    return [
        {"task": one.task, "table": table, **row}
        for one in made
        for table, rows in (("grader", one.graders), ("pair", one.pairs))
        for row in rows
    ]


def _titled(one: Agreement) -> list[tuple[str, list[Row]]]:
    logs = "1 log" if one.logs == 1 else f"{one.logs} logs"
    answers = "1 answer" if one.answers == 1 else f"{one.answers} answers"
    return [
        (f"{one.task}: graders on {answers} of {logs}", one.graders),
        (f"{one.task}: pairs of graders", [_readable(row) for row in one.pairs]),
    ]


def _readable(row: Row) -> Row:
    agreement, kappa = row["agreement"], row["kappa"]
    return row | {
        "agreement": None if agreement is None else f"{100 * agreement:.1f}",
        "kappa": None if kappa is None else f"{kappa:.3f}",
    }
