"""`cacheblend`, `epic`, `frontier` and `oracle` (paper App. D)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from repair_views import CACHED, CLOSE, LENGTHS, Snapshot, bare_view, deep, some_view
from small_models import build, config_of, twins, wrap

from bcrbench.engine.attention import NAME
from bcrbench.errors import UserError
from bcrbench.repair.layouts import Chunk, Grow, Single
from bcrbench.repair.selectors.cacheblend import CacheBlend
from bcrbench.repair.selectors.epic import Epic
from bcrbench.repair.selectors.frontier import Frontier
from bcrbench.repair.selectors.oracle import Oracle
from bcrbench.repair.view import RepairView
from bcrbench.reuse.segments import join

NAMES = ("llama", "qwen2")
FIRST = LENGTHS[0]


def deviation(view: RepairView, part: str) -> torch.Tensor:
    """Squared deviation of layer 1 from the dense cache, summed over heads and channels."""
    gap = getattr(view.cache, part)[1, 0, :, :CACHED] - getattr(view.dense, part)[1, 0, :, :CACHED]
    return (gap**2).sum(dim=(0, 2))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("variant", "part"), [("paper", "values"), ("released", "values"), ("lmcache-v1", "keys")])
def test_cacheblend_scores_the_deviation_of_layer_1(name: str, variant: str, part: str) -> None:
    view = some_view(deep(name).runtime)
    expected = deviation(view, part)
    scores = CacheBlend(variant=variant).scores(view)
    torch.testing.assert_close(scores, expected, rtol=1e-3, atol=1e-5)
    assert float(scores[:FIRST].max()) < 1e-5 < 1e-2 < float(scores[FIRST:].max())


@pytest.mark.parametrize("variant", ["paper", "lmcache-v1"])
def test_these_variants_leave_the_cache_alone(variant: str) -> None:
    view = some_view(deep("llama").runtime)
    before = Snapshot.of(view.cache)
    CacheBlend(variant=variant).scores(view)
    before.check(view.cache)


def test_released_keeps_layers_0_and_1_of_all_rows_and_nothing_else() -> None:
    view = some_view(deep("llama").runtime)
    before = Snapshot.of(view.cache)
    CacheBlend(variant="released").scores(view)
    for part in ("keys", "values"):
        ours, old, dense = (getattr(cache, part) for cache in (view.cache, before, view.dense))
        torch.testing.assert_close(ours[:2, :, :, :CACHED], dense[:2, :, :, :CACHED], **CLOSE)
        assert not torch.allclose(old[1, :, :, :CACHED], dense[1, :, :, :CACHED], **CLOSE)
        assert torch.equal(ours[2:], old[2:])
        assert torch.equal(ours[:, :, :, CACHED:], old[:, :, :, CACHED:])
        assert torch.equal(ours[:, :, :, :FIRST], old[:, :, :, :FIRST])  # exact already, and an agent's to keep
    assert view.cache.length == before.length


def test_cacheblend_needs_a_second_layer() -> None:
    view = some_view(wrap(build(config_of("llama", num_hidden_layers=1), NAME)))
    with pytest.raises(UserError, match="expected at least 2"):
        CacheBlend().scores(view)


def test_an_unknown_variant_names_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'lmcache-v1'"):
        CacheBlend(variant="lmcache")  # type: ignore[arg-type]


def test_epic_takes_first_rows_of_shared_segments_in_turn() -> None:
    view = some_view()
    question, peer, fixed_1 = (view.segments[i].start for i in (1, 3, 2))

    def chosen(rows: int) -> list[int]:
        return Single().rows(view, Epic(), rows / CACHED).rows

    assert chosen(1) == [question]
    assert chosen(2) == [question, peer]
    assert chosen(5) == [question, question + 1, question + 2, peer, peer + 1]
    # The peer's 9 rows are taken by now; the question's 14 go on, then the later template pieces.
    shared = sum(segment.length for segment in view.segments if segment.shared)
    assert chosen(shared) == [*range(question, question + 14), *range(peer, peer + 9)]
    assert chosen(shared + 1) == sorted([*chosen(shared), fixed_1])
    assert chosen(CACHED - FIRST) == list(range(FIRST, CACHED))  # fixed_0 comes last


def test_epic_ranks_a_long_segment_to_its_end() -> None:
    """Neighbouring ranks stay apart in float32, where reciprocals of positions would tie."""
    count = 20_000
    prompt = join([[1], [2]], ["question"], [[0] * count])
    view = replace(bare_view([False] * (count + 1)), ids=prompt.ids, segments=prompt.segments)
    scores = Epic().scores(view)
    assert len(set(scores[1:].tolist())) == count


def test_epic_puts_a_chunk_where_its_first_ranked_row_is() -> None:
    # The question starts at row 10, in the second chunk of 8; the peer at 29, in the fourth.
    assert Chunk(B=8).rows(some_view(), Epic(), 0.4).spans == [(8, 16), (24, 32)]
    assert Grow(cap=4).rows(some_view(), Epic(), 8 / CACHED).spans == [(10, 14), (29, 33)]


def test_frontier_takes_the_first_inexact_rows_in_order() -> None:
    view = some_view()
    for layout in (Single(), Grow(cap=4)):
        assert layout.rows(view, Frontier(), 0.3).rows == list(range(FIRST, FIRST + 12))
    # The chunk that holds the frontier comes first, although most of its rows are exact.
    assert Chunk(B=FIRST + 1).rows(view, Frontier(), 0.3).spans == [(0, FIRST + 1)]
    assert Chunk(B=8).rows(view, Frontier(), 0.4).spans == [(8, 16), (16, 24)]
    view.exact[FIRST + 1] = True
    assert Single().rows(view, Frontier(), 3 / CACHED).rows == [FIRST, FIRST + 2, FIRST + 3]


def test_frontier_and_epic_reach_exact_rows_last() -> None:
    for selector in (Frontier(), Epic()):
        found = Single().rows(some_view(), selector, (CACHED - FIRST + 2) / CACHED)
        assert found.rows == [0, 1, *range(FIRST, CACHED)]


@pytest.mark.parametrize("part", ["keys", "values"])
@pytest.mark.parametrize("layer", [0, 1])
def test_oracle_scores_corrupted_rows_highest(part: str, layer: int) -> None:
    view = some_view(twins("qwen2").runtime)
    for ours, dense in ((view.cache.keys, view.dense.keys), (view.cache.values, view.dense.values)):
        ours[:, :, :, :CACHED] = dense[:, :, :, :CACHED]
    wrong = [3, 17, 18, 40]
    getattr(view.cache, part)[layer, :, :, wrong] += 0.5
    scores = Oracle().scores(view)
    assert Single().rows(view, Oracle(), len(wrong) / CACHED).rows == wrong
    assert all(scores[j] == 0 for j in range(CACHED) if j not in wrong)


def test_oracle_is_the_relative_error_of_all_layers() -> None:
    view = some_view(deep("llama").runtime)
    total = 0.0
    for part in ("keys", "values"):
        for layer in range(view.runtime.layers):
            ours, dense = (getattr(cache, part)[layer, :, :, :CACHED] for cache in (view.cache, view.dense))
            total += float(torch.dist(ours, dense) / dense.norm()) ** 2
    assert float((Oracle().scores(view) ** 2).sum()) == pytest.approx(total, rel=1e-4)


def test_oracle_weighs_layers_alike_whatever_their_scale() -> None:
    view = some_view(deep("llama").runtime)
    expected = Oracle().scores(view)
    with torch.inference_mode():
        for cache in (view.cache, view.dense):
            cache.values[2] *= 100.0
    torch.testing.assert_close(Oracle().scores(view), expected, rtol=1e-4, atol=1e-6)
