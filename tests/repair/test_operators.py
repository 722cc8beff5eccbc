"""Making rows fresh: recompute and transplant against Dense (paper App. B, "Correctness")."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from repair_views import CACHED, CLOSE, Snapshot, deep, prefilled, some_view
from small_models import ARCHITECTURES, twins
from torch import Tensor

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.decode import greedy, most_likely
from bcrbench.repair import OPERATORS
from bcrbench.repair.operators import recompute, transplant
from bcrbench.repair.view import RepairView

ALL = list(range(CACHED))
row_sets = st.sets(st.integers(0, CACHED - 1)).map(sorted)
few = settings(max_examples=25, deadline=None)


def dense_logits(view: RepairView) -> Tensor:
    return view.runtime.run(view.ids, range(len(view.ids)), view.runtime.new_cache(len(view.ids)))


def close(view: RepairView, rows: list[int]) -> bool:
    """Do these rows equal Dense's to float32 rounding?"""
    return all(
        torch.allclose(ours[:, :, :, rows], dense[:, :, :, rows], **CLOSE)
        for ours, dense in ((view.cache.keys, view.dense.keys), (view.cache.values, view.dense.values))
    )


def tokens(view: RepairView, cache: SlotCache, logits: Tensor) -> list[int]:
    return greedy(view.runtime, cache, [most_likely(logits)], len(view.ids), 24).ids


@pytest.mark.parametrize("spoiled", ["assembled", "wiped", "noise"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_recomputing_every_row_equals_dense(name: str, spoiled: str) -> None:
    view = some_view(twins(name).runtime)
    if spoiled == "wiped":
        view.cache.keys.zero_()
        view.cache.values.zero_()
    if spoiled == "noise":
        view.cache.keys.normal_()
        view.cache.values.normal_()
    logits = recompute(view, ALL)
    assert close(view, [*ALL, CACHED])
    torch.testing.assert_close(logits, dense_logits(view), **CLOSE)
    dense = prefilled(view.runtime, view.ids, len(view.ids) + 24)
    assert tokens(view, view.cache, logits) == tokens(view, dense, dense_logits(view))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_transplanting_every_row_equals_dense_bit_for_bit(name: str) -> None:
    view = some_view(twins(name).runtime)
    assert not close(view, ALL)
    logits = transplant(view, ALL)
    assert torch.equal(view.cache.keys[:, :, :, :CACHED], view.dense.keys[:, :, :, :CACHED])
    assert torch.equal(view.cache.values[:, :, :, :CACHED], view.dense.values[:, :, :, :CACHED])
    torch.testing.assert_close(logits, dense_logits(view), **CLOSE)


@few
@given(name=st.sampled_from(("llama", "qwen2")), last=st.integers(0, CACHED - 1))
def test_recomputing_a_prefix_equals_dense(name: str, last: int) -> None:
    view = some_view(twins(name).runtime)
    recompute(view, list(range(last + 1)))
    assert close(view, list(range(last + 1)))


def test_recomputing_behind_stale_rows_does_not_equal_dense() -> None:
    """What parts the operators: the same rows copied are exact, recomputed they carry what stands before them."""
    rows = list(range(20, 30))
    view = some_view(deep("llama").runtime)
    recompute(view, rows)
    assert not close(view, rows)
    view = some_view(deep("llama").runtime)
    transplant(view, rows)
    assert close(view, rows)


@few
@given(name=st.sampled_from(("llama", "qwen2")), rows=row_sets, operator=st.sampled_from(("recompute", "transplant")))
def test_only_selected_rows_and_the_last_token_are_written(name: str, rows: list[int], operator: str) -> None:
    view = some_view(twins(name).runtime)
    before = Snapshot.of(view.cache)
    logits = OPERATORS.get(operator)(view, rows)
    kept = [j for j in range(view.cache.capacity) if j not in {*rows, CACHED}]
    assert torch.equal(view.cache.keys[:, :, :, kept], before.keys[:, :, :, kept])
    assert torch.equal(view.cache.values[:, :, :, kept], before.values[:, :, :, kept])
    assert view.cache.length == CACHED + 1
    assert logits.dtype == torch.float32


@few
@given(rows=row_sets)
def test_a_transplanted_row_is_denses_own(rows: list[int]) -> None:
    view = some_view(twins("llama").runtime)
    transplant(view, rows)
    assert torch.equal(view.cache.keys[:, :, :, rows], view.dense.keys[:, :, :, rows])
    assert torch.equal(view.cache.values[:, :, :, rows], view.dense.values[:, :, :, rows])


@few
@given(rows=row_sets)
def test_recomputing_is_the_absolute_position_mask_at_work(rows: list[int]) -> None:
    """The same rows run one by one, in order, and then the last token: what one pass over all must equal."""
    view, slow = some_view(deep("qwen2").runtime), some_view(deep("qwen2").runtime)
    logits = recompute(view, rows)
    expected = logits
    for row in [*rows, CACHED]:
        expected = slow.runtime.run([slow.ids[row]], [row], slow.cache)
    torch.testing.assert_close(view.cache.keys, slow.cache.keys, **CLOSE)
    torch.testing.assert_close(view.cache.values, slow.cache.values, **CLOSE)
    torch.testing.assert_close(logits, expected, **CLOSE)


@pytest.mark.parametrize("operator", ["recompute", "transplant"])
def test_without_rows_only_the_last_token_runs(operator: str) -> None:
    view, plain = some_view(), some_view()
    logits = OPERATORS.get(operator)(view, [])
    assert torch.equal(logits, plain.runtime.run([plain.ids[-1]], [CACHED], plain.cache))
    Snapshot.of(plain.cache).check(view.cache)
    assert "dense" not in vars(view)  # and no exact cache is made for nothing
