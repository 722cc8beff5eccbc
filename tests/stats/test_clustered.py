"""Items run again in several cells: nets, and tests of them against independently made witnesses and simulation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bcrbench.stats.clustered import durkalski, item_level, item_nets, obuchowski
from bcrbench.stats.differences import sign_flip
from bcrbench.stats.paired import split

WITNESSES = json.loads((Path(__file__).parents[1] / "data" / "item_level_witnesses.json").read_text())
flags = st.lists(st.tuples(*[st.booleans()] * 6), min_size=1, max_size=25)
nets = st.lists(st.integers(-4, 4), min_size=2, max_size=40)


@pytest.mark.parametrize("name", sorted(WITNESSES))
def test_the_witnesses_of_the_papers_corrected_p(name: str) -> None:
    """Histograms of nets that give the printed 0.089 and 0.13 under one definition, with the others' p beside it."""
    witness: dict[str, Any] = WITNESSES[name]
    values = [int(net) for net, items in witness["hist"].items() for _ in range(items)]
    found, expected = item_level(values), witness["others"]
    b, c = map(int, name.split()[0].split("/"))
    assert (found.net, found.squares, [found.ahead, found.behind]) == (b - c, witness["sum_d2"], witness["items"])
    ours = (found.p, found.durkalski.p, found.obuchowski.p, found.paired_t.p, found.wilcoxon.p)
    names = ("signflip_exact", "durkalski_z", "obuchowski_z", "paired_t", "wilcoxon")
    assert [f"{p:.4f}" for p in ours] == [f"{expected[one]:.4f}" for one in names]


@given(items=flags)
def test_nets_sum_to_the_cells_splits(items: list[tuple[bool, ...]]) -> None:
    columns = [list(column) for column in zip(*items)]
    cells = [(columns[k], columns[k + 1]) for k in (0, 2, 4)]
    found = item_nets(cells)
    splits = [split(first, second) for first, second in cells]
    assert sum(found) == sum(one.b - one.c for one in splits)
    assert len(found) == len(items) and max(map(abs, found)) <= len(cells)
    assert item_nets([(second, first) for first, second in cells]) == [-net for net in found]


def test_cells_must_hold_the_same_items() -> None:
    with pytest.raises(ValueError, match="argument"):
        item_nets([([True], [False]), ([True, False], [False, False])])
    with pytest.raises(ValueError, match="no cell"):
        item_nets([])


@given(b=st.integers(0, 40), c=st.integers(0, 40))
def test_in_one_cell_durkalski_is_mcnemars_chi_square(b: int, c: int) -> None:
    found = durkalski([1] * b + [-1] * c + [0] * 9)
    if b != c:
        assert found.statistic is not None and found.statistic**2 == pytest.approx((b - c) ** 2 / (b + c))
        assert found.p == pytest.approx(stats.chi2.sf((b - c) ** 2 / (b + c), 1))
    else:
        assert found.p == 1


@given(values=nets)
def test_obuchowskis_z_is_the_t_statistic_of_the_nets(values: list[int]) -> None:
    found = obuchowski(values)
    if len(set(values)) == 1:
        assert found.statistic == (None if values[0] else 0.0)
    elif sum(values):
        assert found.statistic == pytest.approx(stats.ttest_1samp(values, 0).statistic)
        assert found.p == pytest.approx(2 * stats.norm.sf(abs(found.statistic or 0)))


def test_one_item_has_no_centred_variance() -> None:
    assert obuchowski([2]).p is None


def test_the_sign_flip_test_keeps_its_size_where_the_pooled_test_does_not() -> None:
    """Simulated: items that flip do so in all four cells, no condition is better; 2000 runs, standard error 0.005."""
    rng = np.random.default_rng(7)
    runs = 2000
    flipped = rng.choice([-4, 0, 4], size=(runs, 60), p=[0.15, 0.7, 0.15])
    cache = {key: sign_flip([4] * key[0] + [-4] * key[1]) for key in {tuple(_split(row)) for row in flipped}}
    kept = np.mean([cache[tuple(_split(row))] < 0.05 for row in flipped])
    pooled = np.mean([stats.binom.cdf(4 * min(_split(row)), 4 * sum(_split(row)), 0.5) < 0.025 for row in flipped])
    assert kept < 0.05 + 3 * 0.005
    assert pooled > 0.25


def _split(row: np.ndarray) -> list[int]:
    return [int((row > 0).sum()), int((row < 0).sum())]
