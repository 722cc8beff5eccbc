"""What `bcrbench stats --html` and `--plot` do with logs that have been read for figures."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bcrbench.errors import UserError
from bcrbench.runs.log import ItemOutcome, Log
from bcrbench.stats.arms import make_arms
from bcrbench.stats.bench_report import refuse_benches
from bcrbench.stats.cells import Cell, make_cells
from bcrbench.stats.figures.collect import collect
from bcrbench.stats.figures.source import read_for_figures
from bcrbench.stats.figures.write import write_figures
from bcrbench.stats.page.build import build
from bcrbench.stats.report import Options
from bcrbench.stats.units import is_probe
from bcrbench.whole_file import check_file, write_whole

__all__ = ["check_targets", "read_for_figures", "show"]

MANY, FEW = 6, 2  # cells that have figures in a page
LARGE = 50_000  # calls from which on they are few


def check_targets(logs: Sequence[Path], html: Path | None, plot: Path | None) -> None:
    """Raise UserError, before anything is read, for a page that is no file or a log, or a folder that is a file."""
    if html is not None:
        check_file(html, "--html")
    if html is not None and html.exists() and any(log.exists() and log.samefile(html) for log in logs):
        raise UserError(f"--html {str(html)!r}: is one of the logs, expected another file")
    if plot is not None and plot.exists() and not plot.is_dir():
        raise UserError(f"--plot {str(plot)!r}: is a file, expected a folder")


def show(
    logs: Sequence[Log[ItemOutcome]], options: Options, notes: Sequence[str], html: Path | None, plot: Path | None
) -> list[str]:  # fmt: skip
    """Write the page and the figures; returns one line for each thing written or left out.

    Raises UserError for what must not be compared and for a place that cannot be written to.
    """
    with _settled():
        return _show(logs, options, notes, html, plot)


@contextmanager
def _settled() -> Iterator[None]:
    """Keep the logs out of the collector's rounds, which would walk through them for every figure."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _show(
    logs: Sequence[Log[ItemOutcome]], options: Options, notes: Sequence[str], html: Path | None, plot: Path | None
) -> list[str]:  # fmt: skip
    refuse_benches(logs, "for --html and --plot")
    runs = [log for log in logs if not is_probe(log)]
    cells, _ = make_cells(make_arms(runs, options.grader), options.vs, options.intersect)
    probes = [log for log in logs if is_probe(log)]
    told: list[str] = []
    if plot is not None:
        written, told = write_figures(plot, collect(cells, probes))
        told.append(f"{plot}: {len(written)} files" if written else f"{plot}: no figure")
    if html is not None:
        page = build(cells, list(collect(cells, probes, _places(cells))), notes)
        write_whole(html, page, "--html")
        told.append(f"{html}: {len(page) / 1e6:.1f} MB")
    return told


def _places(cells: Sequence[Cell]) -> int:
    """Cells that a page has figures of: a page of a large sweep stays quick to make and to open."""
    calls = sum(len(item.calls) for cell in cells for arm in cell.arms for item in arm.items)
    return MANY if calls <= LARGE else FEW
