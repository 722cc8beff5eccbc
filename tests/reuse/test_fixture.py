"""The released engine's own numbers: rotation, anchors, offsets, gate and eviction, reproduced to 1e-5.

The file holds inputs and outputs of the released code on tensors [layers, 1, kv_heads, tokens, head_dim].
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from predictions import ARITHMETIC, KINDS, gated, predicted
from torch import Tensor

from bcrbench.reuse.anchors import Bucket, Stored
from bcrbench.reuse.arithmetic import Arithmetic
from bcrbench.reuse.assemble import Weights, weigh
from bcrbench.reuse.block import Block
from bcrbench.reuse.gate import activated

FIXTURE = json.loads((Path(__file__).parents[1] / "data" / "fixture_engine_small.json").read_text())
CLOSE = {"rtol": 0.0, "atol": 1e-5}
NODE = "7"
# Prefix lists are cut to one a shared segment, so that each keeps the fixed segment behind it. With three entries
# and two shared segments, the one behind the first is the last but one.
AFTER = -2


def rows_of(nested: Any) -> Tensor:
    """[layers, 1, kv_heads, tokens, head_dim] as [tokens, layers, kv_heads, head_dim]."""
    return torch.tensor(nested)[:, 0].permute(2, 0, 1, 3).contiguous()


def block_of(pair: dict[str, Any], origin: int = 0) -> Block:
    return Block(rows_of(pair["k"]), rows_of(pair["v"]), origin)


def difference(real: Block, base: Block) -> Block:
    return Block(real.keys - base.keys, real.values - base.values, base.origin)


def assert_blocks(ours: Block, theirs: dict[str, Any]) -> None:
    torch.testing.assert_close(ours.keys, rows_of(theirs["k"]), **CLOSE)
    torch.testing.assert_close(ours.values, rows_of(theirs["v"]), **CLOSE)


@pytest.fixture(scope="module")
def frequencies() -> Tensor:
    return torch.tensor(FIXTURE["inv_freq"])


@pytest.fixture
def bucket() -> Bucket:
    """The pool after the three dense calls of the file."""
    made = Bucket()
    for call in FIXTURE["dense_calls"]:
        base, after = block_of(call["base_ph"]), block_of(call["base_pf_all"][AFTER])
        delta = difference(block_of(call["real_ph"]), base)
        delta_after = difference(block_of(call["real_pf_all"][AFTER]), after)
        made.store(call["message"], NODE, base, delta, delta_after)
    return made


def test_rotation(frequencies: Tensor) -> None:
    case = FIXTURE["rotate"]
    assert_blocks(block_of(case["in"]).moved(case["offset"], frequencies), case["out"])


def test_rotation_after_leading_tokens_are_dropped(frequencies: Tensor) -> None:
    case = FIXTURE["rotate"]
    whole = block_of(case["in"])
    dropped = Block(whole.keys[case["drop"] :], whole.values[case["drop"] :], 0)
    assert_blocks(dropped.moved(case["offset2"], frequencies), case["out2"])


def test_anchors_hold_base_and_deviations(bucket: Bucket) -> None:
    assert [anchor.key for anchor in bucket.anchors] == list(FIXTURE["pool_keys"])
    assert [anchor.tokens for anchor in bucket.anchors] == [length for length, _ in FIXTURE["anchor_len"].values()]
    for anchor, call in zip(bucket.anchors, FIXTURE["dense_calls"], strict=True):
        kept = anchor.deviations[NODE]
        parts = [
            (anchor.base.keys, rows_of(call["base_ph"]["k"])),
            (anchor.base.values, rows_of(call["base_ph"]["v"])),
            (kept.segment.keys, rows_of(call["real_ph"]["k"]) - rows_of(call["base_ph"]["k"])),
            (kept.segment.values, rows_of(call["real_ph"]["v"]) - rows_of(call["base_ph"]["v"])),
            (kept.after.keys, rows_of(call["real_pf_all"][1]["k"]) - rows_of(call["base_pf_all"][1]["k"])),
            (kept.after.values, rows_of(call["real_pf_all"][1]["v"]) - rows_of(call["base_pf_all"][1]["v"])),
        ]
        for stored, rows in parts:
            assert torch.equal(stored, rows.flatten(1))


@ARITHMETIC
@pytest.mark.parametrize("name", ["offset", "offset_len7"])
def test_offsets(bucket: Bucket, name: str, arithmetic: Arithmetic) -> None:
    case = FIXTURE[name]
    segment, after = block_of(case["ph_in"]), block_of(FIXTURE["offset"]["pf_in"])
    weights = weigh(segment, None, bucket, arithmetic, None)
    assert weights is not None
    assert bucket.covering(segment.tokens) == case["anchor_index"]
    assert_blocks(predicted(segment, NODE, "segment", weights, arithmetic), case["ph_out"])
    assert_blocks(predicted(after, NODE, "after", weights, arithmetic), case["pf_out"])


def test_the_released_offsets_are_far_from_no_offset() -> None:
    case = FIXTURE["offset"]
    for part in ("ph", "pf"):
        base, out = block_of(case[f"{part}_in"]), block_of(case[f"{part}_out"])
        assert torch.equal(base.keys[:, 0], out.keys[:, 0]) and torch.equal(base.values[:, 0], out.values[:, 0])
        assert (out.keys - base.keys)[:, 1:].abs().mean() > 0.1
        assert (out.values - base.values)[:, 1:].abs().mean() > 0.1


@ARITHMETIC
def test_blending_weights(bucket: Bucket, arithmetic: Arithmetic) -> None:
    case = FIXTURE["offset"]
    weights = weigh(block_of(case["ph_in"]), None, bucket, arithmetic, None)
    assert isinstance(weights, Weights)
    count = len(case["anchor_index"])
    for ours, theirs in (
        (weights.key_rows, case["w_key_ph"]),
        (weights.value_rows, case["w_val_ph"]),
        (weights.key_channels, case["w_key_prefix"]),
        (weights.value_channels, case["w_val_prefix"]),
    ):
        released = torch.tensor(theirs).reshape(count, -1)
        torch.testing.assert_close(ours, released, **CLOSE)
        torch.testing.assert_close(ours.sum(0), torch.ones(ours.shape[1]), **CLOSE)
        assert ours.max() - ours.min() > 0.05, "flat weights would show nothing"


def gate_bucket(case: dict[str, Any], count: int | None = None) -> Bucket:
    bucket = Bucket()
    for number, values in enumerate(case["anchor_v"][:count]):
        rows = rows_of(values)
        block = Block(torch.zeros_like(rows), rows, 0)
        bucket.store(f"a{number}", "1", block, block, block)
    return bucket


@ARITHMETIC
@pytest.mark.parametrize("case", FIXTURE["gate"], ids=range(len(FIXTURE["gate"])))
def test_gate(case: dict[str, Any], arithmetic: Arithmetic) -> None:
    bucket = gate_bucket(case)
    gate = gated("question", rows_of(case["cand_v"]), bucket, case["threshold"], arithmetic)
    assert gate.distances == pytest.approx(case["dist"], abs=1e-5)
    assert gate.entropy == pytest.approx(case["entropy_bits"], abs=1e-5)
    assert gate.limit == pytest.approx(case["limit"], abs=1e-5)
    assert gate.decision == ("new" if case["new_anchor"] else "sharable")
    assert gate.why == ("entropy" if case["new_anchor"] else "ok")
    assert [anchor.count for anchor in bucket.anchors] == case["activated"]
    assert (gate.rows, gate.anchors, gate.available) == (len(rows_of(case["cand_v"])), 3, 3)
    similarity = torch.softmax(-torch.tensor(gate.distances), dim=0)
    torch.testing.assert_close(similarity, torch.tensor(case["sim"]), **CLOSE)
    if not case["new_anchor"]:
        assert sorted(activated(similarity)) == [i for i, count in enumerate(case["activated"]) if count]


@pytest.mark.parametrize(
    ("edge", "anchors", "why"),
    [("zero_anchors", 0, "pool"), ("one_anchor", 1, "pool"), ("only_one_long_enough", 3, "length")],
)
def test_gate_edges(edge: str, anchors: int, why: str) -> None:
    case = FIXTURE["gate"][5]  # at threshold 1 nothing but the edge can call it new
    bucket = gate_bucket(case, anchors)
    if edge == "only_one_long_enough":
        for anchor in bucket.anchors[1:]:
            anchor.base = Stored(anchor.base.keys[:4], anchor.base.values[:4])
    gate = gated("question", rows_of(case["cand_v"]), bucket, case["threshold"], KINDS[0])
    assert FIXTURE["gate_edges"][edge] is True
    assert (gate.decision, gate.why) == ("new", why)
    assert (gate.entropy, gate.limit, gate.distances) == (None, None, None)
    assert not any(anchor.count for anchor in bucket.anchors)


def test_eviction_sequence() -> None:
    steps = FIXTURE["eviction_zero_freq"]
    rows = torch.zeros(1, 1, 1, 4)
    block = Block(rows, rows, 0)
    bucket = Bucket(capacity=20, window=5)
    for number in range(steps[0]["before"]):
        bucket.store(f"e{number}", "1", block, block, block)
    for step in steps:
        before = [anchor.key for anchor in bucket.anchors]
        assert len(before) == step["before"]
        bucket.store(step["insert"], step["node"], block, block, block)
        after = [anchor.key for anchor in bucket.anchors]
        assert len(after) == step["after"]
        assert [key for key in before if key not in after] == step["removed"]
        assert [key for key in after if key not in before] == step["added"]
