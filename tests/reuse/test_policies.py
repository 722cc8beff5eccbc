"""Policies in the real request path: what each must do to which calls, on a 2-layer random model."""

from __future__ import annotations

from functools import cache

import pytest

from bcrbench.agents.request import Requests
from bcrbench.conditions import parse
from bcrbench.engine.model import Runtime, load
from bcrbench.errors import UserError
from bcrbench.reuse.policies.give_up import draw, matching
from bcrbench.runs.schema import Call, ItemRecord
from bcrbench.settings import Settings
from bcrbench.sweep.plan import plan_cell

ITEMS = 7
LENGTH = 6


@cache
def runtime() -> Runtime:
    """One tiny model for all."""
    return load("random:tiny", device="cpu", dtype="float32")


@cache
def run(condition: str) -> list[ItemRecord]:
    """The first items under a condition; orders of one size, so that anchors cover each other."""
    cell = plan_cell(Settings(task="quotes", data="goods=3", limit=ITEMS, agents=2))
    policy = parse(condition).policy
    requests = Requests(runtime(), cell.task, cell.agents, cell.prompts, policy, cell.grader, LENGTH)
    return [requests.run(index, item) for index, item in enumerate(cell.items)]


def calls(condition: str) -> list[Call]:
    """All calls in order."""
    return [call for record in run(condition) for call in record.calls]


def said(condition: str) -> list[list[int]]:
    """All generated ids in order."""
    return [call.ids for call in calls(condition)]


def test_an_open_gate_that_trusts_everything_is_unconditional_reuse() -> None:
    assert said("opengate:theta=0.0") == said("kvcomm:gamma=1.0")
    assert [c.served for c in calls("opengate:theta=0.0")] == [c.served for c in calls("kvcomm:gamma=1.0")]
    assert any(call.draft_ids == call.ids[:2] for call in calls("opengate:theta=0.0") if call.served == "reuse")


def test_an_open_gate_that_trusts_nothing_is_token_matched_dense() -> None:
    assert said("opengate:theta=1.0") == said("dense:tokens=merged")
    rejected = [call for call in calls("opengate:theta=1.0") if call.why.startswith("opengate-reject:")]
    assert rejected and all(call.served == "dense" and call.draft_ids for call in rejected)


@pytest.mark.parametrize(("condition", "agent"), [("protect-root", "1"), ("protect-leaf", "0"),
                                                  ("protect-leaf:protect=2", "2")])  # fmt: skip
def test_a_protected_node_is_always_prefilled_and_only_it(condition: str, agent: str) -> None:
    full = condition + (":" if ":" not in condition else ",") + "gamma=1.0"
    assert all(call.served == "dense" for call in calls(full) if call.agent == agent)
    assert any(call.why == "protected" for call in calls(full))
    assert any(call.served == "reuse" for call in calls(full) if call.agent != agent)


def test_giving_up_nothing_is_kvcomm_and_everything_is_dense() -> None:
    assert said("random:p=0.0,gamma=1.0") == said("kvcomm:gamma=1.0")
    assert all(call.served == "dense" for call in calls("random:p=1.0,gamma=1.0"))
    assert said("random:p=1.0,gamma=1.0") == said("dense:tokens=merged")


def test_the_random_coin_depends_on_seed_and_opportunity_only() -> None:
    assert draw(3, 11) == draw(3, 11)
    assert len({draw(seed, at) for seed in range(5) for at in range(50)}) == 250
    given_up = [call.why == "coin" for call in calls("random:p=0.5,gamma=1.0,seed=4") if not call.why.startswith("new")]
    assert given_up == [draw(4, at) < 0.5 for at in range(len(given_up))]


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.456, 0.6])
def test_matching_reaches_the_rate_to_within_a_call(rate: float) -> None:
    p = matching(rate, reusable=720, calls=1200, seed=1)
    kept = sum(draw(1, at) >= p for at in range(720))
    assert abs(kept / 1200 - rate) <= 1 / 1200


@pytest.mark.parametrize("condition", ["bcr-chunk:B=8", "bcr-grow:cap=8", "bcr-single", "cacheblend"])
def test_a_full_repair_is_token_matched_dense(condition: str) -> None:
    full = condition + ("," if ":" in condition else ":") + "rho=1.0,gamma=1.0"
    assert said(full) == said("dense:tokens=merged")
    repaired = [call for call in calls(full) if call.served == "reuse"]
    assert repaired and all(call.rows.recomputed == call.rows.cached for call in repaired)
    assert all(call.rows.selected_exact == call.rows.exact for call in repaired)


@pytest.mark.parametrize("condition", ["bcr-chunk", "bcr-single", "bcr-grow"])
def test_repairing_nothing_is_plain_reuse(condition: str) -> None:
    assert said(f"{condition}:rho=0.0,gamma=1.0") == said("kvcomm:gamma=1.0")


def test_operators_and_rows_are_logged() -> None:
    moved = [c for c in calls("bcr-single:op=transplant,gamma=1.0,select=frontier") if c.served == "reuse"]
    assert moved and all(c.rows.transplanted == round(0.2 * c.rows.cached) and not c.rows.recomputed for c in moved)
    for call in moved:
        assert call.selected_spans is not None
        assert sum(end - start for start, end in call.selected_spans) == call.rows.selected


def test_a_repair_leaves_the_agents_own_prefix_as_it_was() -> None:
    cell = plan_cell(Settings(task="quotes", data="goods=3", limit=ITEMS, agents=2))
    policy = parse("bcr-single:rho=1.0,gamma=1.0").policy
    requests = Requests(runtime(), cell.task, cell.agents, cell.prompts, policy, cell.grader, LENGTH)
    server = requests.server
    assert server.shared is not None
    before = {agent: blocks[0] for agent, blocks in server.shared.fixed.items()}
    for index, item in enumerate(cell.items):
        requests.run(index, item)
    for agent, block in before.items():
        held = server.caches[agent].keys[:, 0, :, : block.tokens].permute(2, 0, 1, 3)
        assert held.equal(block.keys)


def test_the_placebo_is_dense_by_another_path() -> None:
    assert said("placebo:piece=5") == said("dense")


def test_matching_without_a_finished_run_says_what_to_run(tmp_path: object) -> None:
    from pathlib import Path

    from bcrbench.runs.matching import Finished

    policy = parse("random:match=0.4").policy
    with pytest.raises(UserError, match="run that condition first"):
        policy.resolve(Finished(Path(str(tmp_path)), {}))
