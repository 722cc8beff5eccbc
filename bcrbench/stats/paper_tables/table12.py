"""Table 12: the repair's layout at a fixed budget, by cap on one span (App. C, "Placement at a fixed budget")."""

from __future__ import annotations

from statistics import fmean

from bcrbench.stats.arms import Arm
from bcrbench.stats.paper_tables import grid, measures, wants
from bcrbench.stats.paper_tables.build import Build
from bcrbench.stats.paper_tables.details import detailed_items
from bcrbench.stats.paper_tables.panel import Column, Line, Panel
from bcrbench.stats.paper_tables.places import Group

TASK = "gsm8k"
COUNTS = (2, 4)
CAPS = (1, 2, 4, 8, 16)
FOOT = (("64 (BCR-grow)", "grow"), ("BCR-chunk", "chunk"), ("CacheBlend, cost-matched", "blend-cost"),
        ("CacheBlend, reuse-matched", "blend-reuse"), ("Dense", "dense"), ("KVComm", "kvcomm"))  # fmt: skip
REPAIRED = ("grow", "chunk", "blend-cost", "blend-reuse")


def build(made: Build) -> list[Panel]:
    """One panel for GSM8K, or one a task that the logs hold."""
    groups = [group for group in grid.shown_groups(made) if group.task == TASK]
    groups = groups or grid.shown_groups(made)
    return [_panel(made, group, COUNTS if group.task == TASK else group.counts) for group in groups]


def _panel(made: Build, group: Group, counts: tuple[int, ...]) -> Panel:
    ref = _runs(made, group, "grow", counts)
    lines = [_line(made, group, str(cap), str(cap), _caps(made, group, cap, counts), ref, cap) for cap in CAPS]
    for label, name in FOOT:
        runs = ref if name == "grow" else _runs(made, group, name, counts)
        lines.append(_line(made, group, name, label, runs, ref, None, name == "grow", name in REPAIRED))
    columns = [
        Column("cap", "Span cap", names=True),
        Column("length", "Mean len.", "hundredth"),
        *(Column(f"accuracy_{n}", f"acc. (%) N={n}", "percent") for n in counts),
        *(Column(f"rows_{n}", f"Rows/call N={n}", "rows") for n in counts),
    ]
    for n in counts:
        columns += [Column(f"split_{n}", f"b/c N={n}", "split"), Column(f"p_{n}", f"p N={n}", "p2")]
    notes = [
        "b: items that the row solves and the 64-token cap misses, c: the reverse; mean length: rows of a run of "
        "adjacent repaired rows, so spans that touch count as one (a cap of 1 is 1 by definition)",
    ]
    title = f"The repair's layout at a fixed budget ({group.title})"
    return Panel("12", title, columns, lines, {"task": group.key}, notes)


def _runs(made: Build, group: Group, name: str, counts: tuple[int, ...]) -> grid.Cells:
    want = wants.grid_wants(group.task, group.gamma)[name]
    return {count: made.arm(group.cells.get(count), want, group.told(count)) for count in counts}


def _caps(made: Build, group: Group, cap: int, counts: tuple[int, ...]) -> grid.Cells:
    """Runs of a cap; single rows are a cap of 1."""
    capped = wants.bcr("grow", group.gamma, cap=cap)
    single = wants.bcr("single", group.gamma)
    runs: grid.Cells = {}
    for count in counts:
        cell = group.cells.get(count)
        other = cap == 1 and not (cell is not None and capped.among(cell))
        runs[count] = made.arm(cell, single if other else capped, group.told(count))
    return runs


def _line(
    made: Build, group: Group, name: str, label: str, runs: grid.Cells, ref: grid.Cells, cap: int | None,
    is_ref: bool = False, repaired: bool = True,
) -> Line:  # fmt: skip
    line = Line(name, {"cap": label})
    grown = cap is not None or is_ref
    line.put("length", _length(runs, cap) if grown else None, *runs.values())
    for count, arm in runs.items():
        line.put(f"accuracy_{count}", measures.accuracy(arm), arm)
        line.put(f"rows_{count}", measures.rows(arm) if repaired else None, arm)
        found = None if is_ref else made.pair(arm, ref[count], group.told(count))
        line.put(f"split_{count}", found, arm, ref[count])
        line.put(f"p_{count}", measures.p_of(found), arm, ref[count])
    return line


def _length(runs: grid.Cells, cap: int | None) -> float | None:
    """Mean rows of a span over the row's runs."""
    there: list[Arm] = [arm for arm in runs.values() if arm is not None]
    if not there or cap == 1:
        return 1.0 if there else None
    spans = [
        stop - start
        for arm in there
        for calls in detailed_items(arm)
        for call in calls
        for start, stop in call.selected_spans or []
    ]
    return fmean(spans) if spans else None
