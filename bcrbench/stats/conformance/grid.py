"""Recipes for what the text claims about the grid of Tables 3, 13 and 14: how many cells, how far, how consistent.

`accuracy` maps a data set to its conditions' correct items at two to five agents, `items` to its number of items;
splits are mapped alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bcrbench.stats.conformance.printed import Value
from bcrbench.stats.seeds import over_seeds

Grid = Mapping[str, Mapping[str, Sequence[int]]]
SplitGrid = Mapping[str, Mapping[str, Sequence[Sequence[int]]]]

LAYOUTS = ("BCR-chunk", "BCR-grow", "BCR-single")
BASELINES = ("KVComm", "CB reuse", "CB cost")


def _margins(accuracy: Grid, over: str) -> list[int]:
    """Each layout less the other condition, in items, cell by cell."""
    return [
        ours - theirs
        for rows in accuracy.values()
        for layout in LAYOUTS
        for ours, theirs in zip(rows[layout], rows[over], strict=True)
    ]


def layouts_above(accuracy: Grid, over: str) -> list[Value]:
    """In how many of the layouts' cells a layout solves more."""
    return [sum(margin > 0 for margin in _margins(accuracy, over))]


def margins_above(accuracy: Grid, over: str) -> list[Value]:
    """The smallest and largest margin of those."""
    ahead = [margin for margin in _margins(accuracy, over) if margin > 0]
    return [min(ahead), max(ahead)]


def _best(rows: Mapping[str, Sequence[int]], names: Sequence[str]) -> list[int]:
    """The most that any of the conditions solves: by agent count, then summed over them for the average."""
    return [max(cell) for cell in zip(*(rows[name] for name in names))] + [max(sum(rows[name]) for name in names)]


def some_layout_beats(accuracy: Grid, over: str) -> list[Value]:
    """In how many cells the best layout solves more."""
    return [
        sum(
            ours > theirs
            for rows in accuracy.values()
            for ours, theirs in zip(_best(rows, LAYOUTS)[:-1], rows[over], strict=True)
        )
    ]


def best_columns(accuracy: Grid) -> list[Value]:
    """In how many columns, averages among them, no baseline solves more than the best layout."""
    return [
        sum(
            ours >= theirs
            for rows in accuracy.values()
            for ours, theirs in zip(_best(rows, LAYOUTS), _best(rows, BASELINES), strict=True)
        )
    ]


def leads(accuracy: Grid, first: str, second: str, sets: Sequence[str]) -> list[Value]:
    """In how many cells of the data sets the first condition solves more than the second."""
    return [sum(a > b for name in sets for a, b in zip(accuracy[name][first], accuracy[name][second], strict=True))]


def average_span(rows: Mapping[str, Sequence[int]], n: int) -> list[Value]:
    """How far apart the conditions' averages are, in points."""
    averages = [over_seeds([100 * k / n for k in ks]).mean for ks in rows.values()]
    return [max(averages) - min(averages)]


def consistent(against_kvcomm: SplitGrid, against_chunk: SplitGrid, others: Sequence[str]) -> list[Value]:
    """Whether KVComm, BCR-chunk and a third condition can disagree as printed, cell by cell.

    Three lists of solved flags disagree pairwise an even number of times in all, and no pair more than the other two.
    """
    cells = [
        sorted((sum(first), sum(second), sum(third)))
        for name, rows in against_kvcomm.items()
        for other in others
        for first, second, third in zip(rows["BCR-chunk"], rows[other], against_chunk[name][other], strict=True)
    ]
    return [all(sum(cell) % 2 == 0 and cell[2] <= cell[0] + cell[1] for cell in cells)]
