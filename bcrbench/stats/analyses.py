"""Tests beyond a row's own: items across cells, Cochran's Q, power, stopping early. Each is asked for by name.

What is tested is declared before it is read: a family is every row of the report that has a p (App. H.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bcrbench.errors import UserError
from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.clustered import item_level, item_nets
from bcrbench.stats.families import Family
from bcrbench.stats.guards import check_pair
from bcrbench.stats.intervals import paired_error
from bcrbench.stats.omnibus import cochran_q
from bcrbench.stats.paired import mcnemar, mcnemar_midp, split
from bcrbench.stats.power import detectable, power, smallest_n
from bcrbench.stats.sequential import follow
from bcrbench.stats.summary import Row, paired_with

Placed = tuple[Cell | None, Row]  # a row and its cell; None for one over several


def pairings(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Arm, Arm]]:
    """Each cell's reference with each arm that is compared with it."""
    for cell in cells:
        for arm in cell.arms:
            reference = cell.reference_of(arm)
            if reference is not None and paired_with(reference, arm):
                yield cell, reference, arm


def paired_row(arm: Arm, reference: Arm | None) -> Row:
    """The mid-p of the split and Miller's standard error of the difference, a fraction."""
    if reference is None or not paired_with(reference, arm):
        return {"mid_p": None, "paired_se": None}
    b, c = split(reference.solved, arm.solved)
    n = len(arm.items)
    return {"mid_p": mcnemar_midp(b, c), "paired_se": paired_error(c, b, n, ddof=1) if n > 1 else None}


def adjusted(cells: Sequence[Cell], correction: str) -> tuple[dict[int, float], str | None]:
    """p by arm (its `id`), adjusted within the family of all rows with a p; and what the family is."""
    tests = {id(arm): mcnemar(*split(reference.solved, arm.solved)) for _, reference, arm in pairings(cells)}
    if not tests:
        return {}, None
    family = Family("rows of this report", {str(key): p for key, p in tests.items()})
    made = family.holm() if correction == "holm" else family.bonferroni()
    count = f"{len(tests)} test{'s' * (len(tests) != 1)}"
    expected = f"{family.nominal_errors():.2f} false ones expected at 0.05 if nothing differs"
    said = f"p_{correction}: {correction.capitalize()} over the family of all {count} in this report ({expected})"
    return {int(key): p for key, p in made.items()}, said


def across_cells(cells: Sequence[Cell]) -> tuple[list[Placed], list[str]]:
    """Conditions that ran the same items in several cells against the same reference: one net an item, tested.

    Cells may differ in the order of the items. Raises UserError when no condition did.
    """
    repeated: dict[tuple[str, str, tuple[str, ...]], list[tuple[Arm, Arm]]] = {}
    for _, reference, arm in pairings(cells):
        repeated.setdefault((arm.label, reference.label, tuple(sorted(arm.ids))), []).append((reference, arm))
    groups = {key: pairs for key, pairs in repeated.items() if len(pairs) > 1}
    if not groups:
        raise UserError("--items-across-cells: no condition ran the same items in two cells, expected at least one")
    rows: list[Placed] = [(None, _across(label, against, pairs)) for (label, against, _), pairs in groups.items()]
    said = (
        "items across cells: net is how many more items the row solves, summed over cells; p is the exact sign-flip "
        "permutation of per-item nets, z Durkalski's, Wilcoxon's p asymptotic with zeros dropped; pooled b and c are a "
        "description"
    )
    return rows, [said]


def _across(label: str, against: str, pairs: Sequence[tuple[Arm, Arm]]) -> Row:
    splits = [split(reference.solved, arm.solved) for reference, arm in pairs]
    found = item_level(item_nets([(_by_id(arm), _by_id(reference)) for reference, arm in pairs]))
    return {
        "condition": label,
        "against": against,
        "cells": len(pairs),
        "n": found.items,
        "pooled_b": sum(pair.b for pair in splits),
        "pooled_c": sum(pair.c for pair in splits),
        "net": found.net,
        "p": found.p,
        "z": found.durkalski.statistic,
        "z_p": found.durkalski.p,
        "wilcoxon_p": found.wilcoxon.p,
    }


def _by_id(arm: Arm) -> list[bool]:
    """Whether each item was solved, in the ids' order, which all cells have in common."""
    return [solved for _, solved in sorted(zip(arm.ids, arm.solved, strict=True))]


def cochran_rows(cells: Sequence[Cell]) -> list[Placed]:
    """Cochran's Q over each cell's conditions that ran the same items and are graded.

    Raises UserError for conditions of a cell without a reference that must not be compared.
    """
    rows: list[Placed] = []
    for cell in cells:
        first = cell.reference or cell.arms[0]
        alike = [arm for arm in cell.arms if arm.ids == first.ids and not arm.ungraded]
        if len(alike) < 2:
            continue
        for arm in alike[1:]:
            check_pair(alike[0], arm)
        found = cochran_q([arm.solved for arm in alike])
        counted = {"conditions": len(alike), "n": len(first.items)}
        rows.append((cell, {**counted, "q": found.q, "df": found.df, "p": found.p}))
    return rows


def power_rows(cells: Sequence[Cell], planned: int) -> list[Placed]:
    """What so many items would show, if the discordant shares were those of each row's split."""
    return [(cell, _power(reference, arm, planned)) for cell, reference, arm in pairings(cells) if arm.items]


def _power(reference: Arm, arm: Arm, planned: int) -> Row:
    found = split(reference.solved, arm.solved)
    n = len(arm.items)
    b, c = found.b / n, found.c / n
    return {
        "condition": arm.label,
        "n": n,
        "b_share": b,
        "c_share": c,
        "planned": planned,
        "power": power(planned, b, c),
        "n_for_80": smallest_n(b, c) if found.b != found.c else None,
        "detectable": detectable(planned, b + c) if found.discordant else None,
    }


def sequential_rows(cells: Sequence[Cell]) -> list[Placed]:
    """The test martingale along each row's items, in the run's order."""
    return [(cell, _sequential(reference, arm)) for cell, reference, arm in pairings(cells)]


def _sequential(reference: Arm, arm: Arm) -> Row:
    found = follow(reference.solved, arm.solved)
    stopped = found.stopped_split
    return {
        "condition": arm.label,
        "n": len(arm.items),
        "b": found.split.b,
        "c": found.split.c,
        "e": found.e,
        "anytime_p": found.p,
        "stopped_at": found.stopped_at,
        "stopped_b": stopped.b if stopped else None,
        "stopped_c": stopped.c if stopped else None,
    }
