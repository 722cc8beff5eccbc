"""Every selector with every layout and operator: budget, order, range, determinism (issue 3, point 4)."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product

import pytest
import torch
from repair_views import CACHED, some_view
from small_models import twins

from bcrbench.errors import UserError
from bcrbench.repair import LAYOUTS, OPERATORS
from bcrbench.repair.budget import chunk_budget
from bcrbench.repair.layouts import Layout
from bcrbench.repair.selectors import SELECTORS
from bcrbench.repair.selectors.base import Selector
from bcrbench.repair.selectors.cacheblend import CacheBlend

VARIANTS: dict[str, Selector] = {
    **{name: SELECTORS.get(name)() for name in SELECTORS.names()},
    "cacheblend-released": CacheBlend(variant="released"),
    "cacheblend-lmcache-v1": CacheBlend(variant="lmcache-v1"),
}
RHO = 0.3


def layout_of(name: str, over: str) -> Layout:
    sizes = {"chunk": {"B": 8}, "grow": {"cap": 8}, "single": {}}[name]
    return LAYOUTS.get(name)(over=over, **sizes)


def test_the_crossing_leaves_nothing_out() -> None:
    assert SELECTORS.names() == ["cacheblend", "coin", "draft", "epic", "frontier", "oracle", "query"]
    assert LAYOUTS.names() == ["chunk", "grow", "single"]
    assert OPERATORS.names() == ["recompute", "transplant"]


@pytest.mark.parametrize("model", ["llama", "qwen2"])
@pytest.mark.parametrize(("layout", "operator"), list(product(LAYOUTS.names(), OPERATORS.names())))
@pytest.mark.parametrize("selector", VARIANTS)
def test_every_selector_with_every_layout_and_operator(selector: str, layout: str, operator: str, model: str) -> None:
    results = []
    for _ in range(2):
        view = some_view(twins(model).runtime, index=5, coin=2)
        found = layout_of(layout, "all").rows(view, VARIANTS[selector], RHO)
        results.append((found, OPERATORS.get(operator)(view, found.rows), view.cache.keys))
    (found, logits, keys), (again, logits_again, keys_again) = results
    assert found == again
    assert torch.equal(logits, logits_again)
    assert torch.equal(keys[:, :, :, : CACHED + 1], keys_again[:, :, :, : CACHED + 1])
    assert found.skipped is None
    assert found.rows == sorted(set(found.rows))
    assert 0 <= found.rows[0] <= found.rows[-1] < CACHED
    assert bool(torch.isfinite(logits).all())
    if layout == "chunk":
        assert len(found.spans) == chunk_budget(CACHED, 8, RHO).units
        assert all(start % 8 == 0 and end == min(start + 8, CACHED) for start, end in found.spans)
    else:
        assert len(found.rows) == round(RHO * CACHED)


@pytest.mark.parametrize("layout", ["chunk", "grow", "single"])
@pytest.mark.parametrize("selector", VARIANTS)
def test_over_predicted_never_selects_an_exact_row(selector: str, layout: str) -> None:
    for rho in (0.3, 0.9, 1.0):
        view = some_view()
        found = layout_of(layout, "predicted").rows(view, VARIANTS[selector], rho)
        assert found.rows
        assert not any(view.exact[j] for j in found.rows)
        if rho == 1.0:
            assert found.rows == [j for j in range(CACHED) if not view.exact[j]]


@pytest.mark.parametrize("layout", ["chunk", "grow", "single"])
@pytest.mark.parametrize("selector", VARIANTS)
def test_a_full_repair_selects_every_row(selector: str, layout: str) -> None:
    assert layout_of(layout, "all").rows(some_view(), VARIANTS[selector], 1.0).rows == list(range(CACHED))


@pytest.mark.parametrize("selector", VARIANTS)
def test_scores_are_float32_finite_and_one_a_row(selector: str) -> None:
    scores = VARIANTS[selector].scores(some_view())
    assert scores.shape == (CACHED,)
    assert scores.dtype == torch.float32
    assert bool(torch.isfinite(scores).all())


@pytest.mark.parametrize("registry", [SELECTORS, LAYOUTS, OPERATORS], ids=["selectors", "layouts", "operators"])
def test_an_unknown_name_lists_the_known_ones(registry: object) -> None:
    with pytest.raises(UserError, match="known: "):
        registry.get("nobody")  # type: ignore[attr-defined]


def test_listing_names_loads_no_model_library() -> None:
    code = (
        "import sys; from bcrbench.repair import LAYOUTS, OPERATORS; from bcrbench.repair.selectors import SELECTORS;"
        "LAYOUTS.names(), OPERATORS.names(), SELECTORS.names();"
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers')))"
    )
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, check=False).returncode == 0
