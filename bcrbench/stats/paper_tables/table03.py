"""Table 3: what reuse costs across agent counts, in the reference grid (section 4.1)."""

from __future__ import annotations

from bcrbench.stats.paper_tables import grid, measures
from bcrbench.stats.paper_tables.build import Build
from bcrbench.stats.paper_tables.panel import Column, Line, Panel, mark_best

ACCURACY = ("dense", "kvcomm", "blend-reuse", "blend-cost", "chunk", "grow", "single")
REUSE = ("kvcomm", "blend-reuse", "chunk", "grow", "single")
BCR = ("chunk", "grow", "single")


def build(made: Build) -> list[Panel]:
    """One panel: accuracies above, reuse rates below."""
    head = [Column("part", "", names=True), Column("method", "# Agents", names=True)]
    lines = [
        _line(made, part, name, measure)
        for part, names, measure in (
            ("Accuracy", ACCURACY, measures.accuracy),
            ("Reuse", REUSE, measures.reuse),
        )
        for name in names
    ]
    accuracies = lines[1 : len(ACCURACY)]  # Dense is left out
    columns = grid.columns(made, average=True)
    for column in columns:
        mark_best(accuracies, column.key)
        if column.key.endswith("_avg"):
            mark_best([line for line in accuracies if line.name.split()[1] in BCR], column.key, "shaded")
    notes = [
        "accuracy and reuse in %; best: of its column, Dense left out; shaded: the best BCR mean. Means over agent "
        "counts re-run the same items, so they carry no test",
    ]
    return [Panel("3", "What reuse costs across agent counts", [*head, *columns], lines, notes=notes)]


def _line(made: Build, part: str, name: str, measure: grid.Measure) -> Line:
    line = Line(f"{part.lower()} {name}", {"part": part, "method": grid.LABELS[name]})
    for group in grid.shown_groups(made):
        grid.fill(line, group, grid.row(made, group, name), measure, average=True)
    return line
