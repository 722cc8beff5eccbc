"""All 637 printed figures: recomputed, compared with an independent computation, and broken on purpose."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from bcrbench.cli.stats import stats
from bcrbench.errors import UserError
from bcrbench.stats.conformance.printed import OneOf, Range
from bcrbench.stats.paper_check import (
    RECIPES,
    Figure,
    check,
    load_cells,
    load_figures,
    recompute,
    resolved,
    summary_lines,
)

SOURCE = json.loads((Path(__file__).parents[1] / "data" / "paper_stats.json").read_text(encoding="utf-8"))
FIGURES = load_figures()
CELLS = load_cells()
NO_NUMBERS = ("consistent", "feasible", "linear", "no_vote_prints", "significant")  # a claim here, its grounds there
EXPECTED = {"True": True, "tie": True, "unrounded": True, "False": False, "None": None}


def name(k: int) -> str:
    return f"{k}-{SOURCE[k]['table']}-{SOURCE[k]['cell'][:40]}"


def numbers(value: Any) -> list[float]:
    """Every number in a nested value, in order."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return []
    if isinstance(value, int | float):
        return [value]
    if isinstance(value, OneOf):
        return list(value.values)
    if isinstance(value, Range):
        return []
    parts = value.values() if isinstance(value, dict) else value
    return [number for part in parts for number in numbers(part)]


def test_every_row_of_the_source_is_here_once() -> None:
    assert len(FIGURES) == len(SOURCE) == 637
    assert [(one.table, one.cell) for one in FIGURES] == [(row["table"], row["cell"]) for row in SOURCE]


@pytest.mark.parametrize("k", range(len(SOURCE)), ids=name)
def test_a_figure_agrees_as_far_as_is_known(k: int) -> None:
    row = recompute(FIGURES[k], CELLS)
    assert row.agrees is EXPECTED[str(SOURCE[k]["agrees"])], row
    assert row.agrees is True or row.reason, "what does not recompute is explained"


@pytest.mark.parametrize("k", range(len(SOURCE)), ids=name)
def test_what_is_printed_is_what_the_source_says(k: int) -> None:
    tokens = [token.lstrip("<>") for token in FIGURES[k].printed]
    given = SOURCE[k]["printed"]
    printed = [float(given[1:])] if isinstance(given, str) and given[0] in "<>" else numbers(given)
    if printed:
        # Two rows carry a bound that the source keeps in its note.
        assert [float(token) for token in tokens][: len(printed)] == printed


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_the_independent_computation_gives_the_same_numbers(recipe: str) -> None:
    """The source's recomputation, made without this library: its numbers are among ours, in order if as many."""
    for figure, row in zip(FIGURES, SOURCE, strict=True):
        theirs = numbers(row["computed"])
        if figure.recipe != recipe or recipe in NO_NUMBERS or row["agrees"] == "unrounded":
            continue
        ours = [one for value in values(figure) for one in numbers(value)]
        if len(ours) == len(theirs):
            assert all(alike(a, b) for a, b in zip(ours, theirs, strict=True)), (figure, ours, theirs)
        else:
            assert all(any(alike(one, number) for one in ours) for number in theirs), (figure, ours, theirs)


def alike(ours: float, theirs: float) -> bool:
    return ours == pytest.approx(theirs, abs=half_unit(theirs), rel=2e-3)


def half_unit(number: float) -> float:
    digits = len(repr(float(number)).partition(".")[2]) if "e" not in repr(float(number)) else 12
    return 0.51 * 10.0**-digits


def values(figure: Figure) -> list[Any]:
    assert figure.recipe is not None
    return RECIPES[figure.recipe](**resolved(figure, CELLS))


def test_624_of_637_and_the_rest_explained() -> None:
    rows = check()
    assert Counter(row.agrees for row in rows) == {True: 624, False: 5, None: 8}
    lines = summary_lines(rows)
    assert lines[0].startswith("624 of 637") and len(lines) == 14
    labels = Counter(str(figure.agrees) for figure in FIGURES)
    assert labels == {"True": 597, "tie": 8, "unrounded": 19, "False": 5, "None": 8}


@pytest.mark.parametrize("figure", [one for one in FIGURES if one.agrees == "tie"], ids=lambda one: one.cell)
def test_ties_are_ties(figure: Figure) -> None:
    (value,) = values(figure)
    digits = len(figure.printed[0].partition(".")[2])
    assert (value * 10**digits * 2) % 2 == pytest.approx(1)


# Breaking inputs: a recomputation that did not depend on them would be a table of answers.

CHANGES = (lambda x: x + 1, lambda x: x + 7, lambda x: x * 1.6 + 2, lambda x: x * 3 + 40, lambda x: x * 0.3)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to the numbers in a nested value."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield path
    elif isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, (*path, key))


def changed(inputs: Any, path: tuple[Any, ...], change: Any) -> Any:
    """The inputs with one number changed; whole numbers stay whole."""
    if not path:
        return type(inputs)(change(inputs))
    copy = dict(inputs) if isinstance(inputs, dict) else list(inputs)
    copy[path[0]] = changed(inputs[path[0]], path[1:], change)
    return copy


@cache
def breaks(k: int, path: tuple[Any, ...]) -> bool:
    """Whether some change of that number makes the figure disagree, or makes it impossible."""
    figure, inputs = FIGURES[k], resolved(FIGURES[k], CELLS)
    for change in CHANGES:
        try:
            row = recompute(msgspec.structs.replace(figure, inputs=changed(inputs, path, change)), {})
        except (ValueError, KeyError):
            return True
        if not row.agrees:
            return True
    return False


@pytest.mark.parametrize("k", [k for k, one in enumerate(FIGURES) if EXPECTED[str(one.agrees)]], ids=name)
def test_a_figure_breaks_when_an_input_does(k: int) -> None:
    paths = list(leaves(resolved(FIGURES[k], CELLS)))
    assert any(breaks(k, path) for path in reversed(paths))


def test_nearly_every_single_input_matters() -> None:
    """Of the figures with few inputs; the others' are the grid, where a cell may not decide a count."""
    paths = {k: list(leaves(resolved(one, CELLS))) for k, one in enumerate(FIGURES) if one.agrees is True}
    few = {k: found for k, found in paths.items() if len(found) <= 4}
    told = [breaks(k, path) for k, found in few.items() for path in found]
    assert len(few) > 450 and sum(told) / len(told) > 0.97


def test_what_is_printed_is_not_an_input() -> None:
    junk = [msgspec.structs.replace(figure, printed=["-98765.4"], agrees=None) for figure in FIGURES if figure.recipe]
    assert not any(row.agrees for row in check(junk, CELLS))


def test_an_unknown_recipe_is_an_error() -> None:
    with pytest.raises(KeyError):
        recompute(msgspec.structs.replace(FIGURES[0], recipe="guess"), CELLS)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["runs"], "LOGS"),
        (["--table", "3"], "--table"),
        (["--html", "page.html"], "--html"),
        (["--plot", "figures"], "--plot"),
        (["--paper"], "--paper"),
        (["--vs", "dense"], "--vs"),
        (["--items-across-cells"], "--items-across-cells"),
        (["--latency"], "--latency"),
    ],
)
def test_nothing_may_stand_beside_the_check(given: list[str], told: str) -> None:
    with pytest.raises(UserError, match=f"^{told}: has no meaning with --paper-check"):
        CliRunner().invoke(stats, ["--paper-check", *given], catch_exceptions=False)
