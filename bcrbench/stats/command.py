"""What `bcrbench stats` prints: the comparison of logs, a table of the paper, or the check of the paper's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bcrbench.errors import UserError
from bcrbench.runs.log import ItemOutcome, Log
from bcrbench.stats.bench_report import bench_report, refuse_benches
from bcrbench.stats.bench_rows import is_bench
from bcrbench.stats.paper_tables.report import paper_table
from bcrbench.stats.report import Options, Report
from bcrbench.stats.tables import render_records
from bcrbench.stats.units import is_probe, report_all

_ALSO_IN_TABLES = {"grader", "intersect"}
_FLAGS = {"across": "items-across-cells", "paper_check": "paper-check"}


def print_report(logs: Sequence[Log[ItemOutcome]], options: Options, fmt: str, paper: bool) -> Report:
    """The comparison of runs, or a probe's table. Raises UserError for what must not be compared."""
    return report_all(logs, options, fmt, paper)


def print_table(number: str, logs: Sequence[Log[ItemOutcome]], options: Options, fmt: str, paper: bool) -> Report:
    """A table of the paper; Table 10 of benches is their own report.

    Raises UserError for an unknown one and for options that say nothing of it.
    """
    refuse({name: value for name, value in vars(options).items() if name not in _ALSO_IN_TABLES}, f"--table {number}")
    if any(map(is_bench, logs)) and (number.lstrip("0"), paper) == ("10", False):
        return bench_report(logs, options, fmt)
    refuse_benches(logs, f"for --table {number}")
    runs = [log for log in logs if not is_probe(log)]
    probes = [log for log in logs if is_probe(log)]
    text, notes = paper_table(number.lstrip("0") or number, runs, probes, fmt, paper, options.grader, options.intersect)
    return Report(text, notes)


def refuse(given: Mapping[str, Any], beside: str) -> None:
    """Raise UserError for the first thing that was given beside something that would ignore it."""
    for name, value in given.items():
        if value:
            what = name if name.isupper() else f"--{_FLAGS.get(name, name)}"
            raise UserError(f"{what}: has no meaning with {beside}, expected neither or one")


def check_paper(fmt: str, given: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The paper's figures recomputed: a summary and those that do not recompute; as records, all of them.

    Raises UserError for anything else that was given: it takes no logs and makes nothing else.
    """
    refuse(given, "--paper-check")
    from bcrbench.stats.paper_check import check, summary_lines

    rows = check()
    if fmt in ("csv", "json"):
        return render_records([row._asdict() for row in rows], fmt), []
    first, *rest = summary_lines(rows)
    return "\n".join([first, *(f"  {line}" for line in rest)]), []
