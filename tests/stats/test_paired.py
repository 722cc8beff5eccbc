"""The exact McNemar test against scipy, against the paper's printed figures, and against its own symmetry."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from bcrbench.stats.paired import Split, attained_size, mcnemar, mcnemar_midp, pool, smallest_significant, split

PAPER = json.loads((Path(__file__).parents[1] / "data" / "paper_tests.json").read_text())["mcnemar"]
counts = st.integers(0, 700)


def half_unit(number: float) -> float:
    """Half a unit of the last printed digit."""
    return 0.5000001 * 10.0 ** int(Decimal(str(number)).as_tuple().exponent)


@given(b=counts, c=counts)
def test_p_is_the_binomial_test_of_scipy(b: int, c: int) -> None:
    expected = binomtest(min(b, c), b + c).pvalue if b + c else 1.0
    assert mcnemar(b, c) == pytest.approx(expected, rel=1e-9)
    assert mcnemar(c, b) == mcnemar(b, c)


@pytest.mark.parametrize("row", PAPER, ids=lambda row: f"{row['table']}-{row['cell']}")
def test_printed_p_values_of_the_paper(row: dict[str, Any]) -> None:
    p = mcnemar(row["b"], row["c"])
    assert abs(p - row["computed"]) <= half_unit(row["computed"])
    if row["printed"] == "<1e-4":
        assert p < 1e-4
    else:
        assert abs(p - row["printed"]) <= half_unit(row["printed"])


@given(pairs=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60))
def test_a_split_counts_what_only_one_solves(pairs: list[tuple[bool, bool]]) -> None:
    reference, row = [one for one, _ in pairs], [two for _, two in pairs]
    found = split(reference, row)
    assert found.b - found.c == sum(reference) - sum(row)
    assert found.discordant == sum(one != two for one, two in pairs)
    assert split(row, reference) == Split(found.c, found.b)


def test_unequal_lists_are_refused() -> None:
    with pytest.raises(ValueError, match="argument"):
        split([True], [True, False])


@given(n=st.integers(0, 300), alpha=st.sampled_from([0.05, 0.01]))
def test_the_smallest_significant_split_is_at_the_edge(n: int, alpha: float) -> None:
    found = smallest_significant(n, alpha)
    if found is None:
        assert mcnemar(n, 0) >= alpha
        return
    assert found.discordant == n and mcnemar(*found) < alpha
    assert mcnemar(found.b - 1, found.c + 1) >= alpha


@pytest.mark.parametrize(("n", "edge"), [(33, (23, 10)), (54, (35, 19)), (10, (9, 1)), (6, (6, 0)), (5, None)])
def test_edges_named_in_the_specification(n: int, edge: tuple[int, int] | None) -> None:
    assert smallest_significant(n) == edge


@given(b=counts, c=counts)
def test_mid_p_counts_half_of_what_is_as_likely_as_observed(b: int, c: int) -> None:
    n = b + c
    less = 2 * binom.cdf(min(b, c) - 1, n, 0.5)
    observed = binom.pmf(min(b, c), n, 0.5) * (1 if b == c else 2)
    assert mcnemar_midp(b, c) == pytest.approx(less + observed / 2, abs=1e-12)
    assert mcnemar_midp(b, c) <= mcnemar(b, c) and mcnemar_midp(b, c) == mcnemar_midp(c, b)


@pytest.mark.parametrize(
    ("b", "c", "exact", "midp"),
    [(1, 7, "0.0703", "0.0391"), (6, 16, "0.0525", "0.0347")],
)
def test_published_examples(b: int, c: int, exact: str, midp: str) -> None:
    """Fagerland, Lydersen and Laake: airway hyper-responsiveness, and response to consolidation therapy."""
    assert (f"{mcnemar(b, c):.4f}", f"{mcnemar_midp(b, c):.4f}") == (exact, midp)


@pytest.mark.parametrize(("n", "size"), [(33, "0.035"), (54, "0.040"), (10, "0.021"), (5, "0.000")])
def test_the_size_that_the_exact_test_attains(n: int, size: str) -> None:
    found = attained_size(n)
    assert f"{found:.3f}" == size
    rejected = sum(binom.pmf(b, n, 0.5) for b in range(n + 1) if mcnemar(b, n - b) < 0.05)
    assert found == pytest.approx(rejected, abs=1e-12)


@given(cells=st.lists(st.builds(Split, counts, counts), max_size=5))
def test_pooled_splits_are_sums(cells: list[Split]) -> None:
    assert pool(cells).discordant == sum(cell.discordant for cell in cells)
    assert pool(cells).b == sum(cell.b for cell in cells)
