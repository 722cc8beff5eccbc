"""Serving calls: when a call is prefilled, what an assembled cache holds, what the pool learns."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import some_ids, twins

from bcrbench.engine.cache import SlotCache
from bcrbench.engine.decode import greedy, most_likely
from bcrbench.engine.model import Runtime
from bcrbench.engine.rope import rotate
from bcrbench.reuse.policies import Dense, KVComm, Policy
from bcrbench.reuse.segments import Prompt, join
from bcrbench.reuse.serve import Job, Outcome, Server

LIMIT = 6
HEADER = some_ids(4, 90)
FEEDS = {"1": True, "2": True, "0": False}
NAMES = {"1": ["question"], "2": ["question", "agent_1"], "0": ["question", "agent_1", "agent_2"]}
FIXED = {
    "1": [some_ids(9, 1), some_ids(5, 2)],
    "2": [some_ids(7, 3), some_ids(4, 4), some_ids(6, 5)],
    "0": [some_ids(8, 6), some_ids(3, 7), some_ids(5, 8), some_ids(2, 9)],
}
VARIANTS = list(product(["released", "canonical"], ["header", "empty"]))
CLOSE = {"rtol": 1e-3, "atol": 1e-3}

variants = pytest.mark.parametrize(("frame", "base"), VARIANTS)


class Team:
    """Two workers and a deciding node around one server; keeps what each call did."""

    def __init__(self, policy: Policy, runtime: Runtime | None = None) -> None:
        self.runtime = runtime or twins("llama3").runtime
        self.server = Server(self.runtime, policy, {"question": HEADER}, LIMIT)
        for agent, names in NAMES.items():
            standins = [some_ids(6, 40 + place) for place in range(len(names))]
            self.server.prepare(agent, join(FIXED[agent], names, standins))
        self.prompts: dict[str, Prompt] = {}
        self.requests = 0

    def ask(self, question: list[int], replay: dict[str, list[int]] | None = None) -> dict[str, Outcome]:
        """One request; `replay` gives agents' responses instead of decoding them."""
        self.server.begin(f"item{self.requests}")
        self.requests += 1
        contents = {"question": question}
        done: dict[str, Outcome] = {}
        for agent, names in NAMES.items():
            prompt = join(FIXED[agent], names, [contents[name] for name in names])
            hears = tuple(name.removeprefix("agent_") for name in names[1:])
            given_ids = (replay or {}).get(agent)
            outcome = self.server.serve(Job(agent, hears, prompt, f"agent_{agent}", FEEDS[agent], replay=given_ids))
            contents[f"agent_{agent}"] = outcome.generation.ids[:-1]
            done[agent], self.prompts[agent] = outcome, prompt
        return done

    def dense(self, agent: str) -> SlotCache:
        """A full prefill of an agent's last prompt."""
        ids = self.prompts[agent].ids
        cache = self.runtime.new_cache(len(ids))
        self.runtime.run(ids, range(len(ids)), cache)
        return cache


def served(done: dict[str, Outcome]) -> list[str]:
    return [outcome.served for outcome in done.values()]


def error(assembled: SlotCache, dense: SlotCache, rows: slice, layer: int) -> float:
    """Largest difference of keys and values of some rows in a layer."""
    return max(
        float((ours[layer, :, :, rows] - exact[layer, :, :, rows]).abs().max())
        for ours, exact in ((assembled.keys, dense.keys), (assembled.values, dense.values))
    )


@pytest.mark.parametrize("name", ["llama", "llama3", "qwen2", "qwen3"])
@variants
def test_two_requests_are_prefilled_and_the_third_is_assembled(name: str, frame: Any, base: Any) -> None:
    team = Team(KVComm(gamma=1.0, frame=frame, base=base), twins(name).runtime)
    assert served(team.ask(some_ids(12, 20))) == ["dense"] * 3
    assert served(team.ask(some_ids(10, 21))) == ["dense"] * 3
    done = team.ask(some_ids(8, 22))
    assert served(done) == ["reuse"] * 3
    for agent, outcome in done.items():
        check_assembled(team, agent, outcome)


def check_assembled(team: Team, agent: str, outcome: Outcome) -> None:
    """Layer 0 and fixed_0 are exact, what follows is not; the tokens are those of this cache."""
    prompt, cache, dense = team.prompts[agent], team.server.caches[agent], team.dense(agent)
    last = len(prompt.ids) - 1
    first = prompt.segments[0].length
    assert (outcome.rows.cached, outcome.rows.exact, outcome.rows.predicted) == (last, first, last - first)
    assert error(cache, dense, slice(0, last), layer=0) < 1e-3
    assert error(cache, dense, slice(0, first), layer=1) < 1e-3
    assert error(cache, dense, slice(first, last), layer=1) > 0.05, "a prediction this good hides a prefill"
    again = team.runtime.new_cache(last + 1 + LIMIT)
    again.keys[:, :, :, :last], again.values[:, :, :, :last] = cache.keys[:, :, :, :last], cache.values[:, :, :, :last]
    again.length = last
    token = most_likely(team.runtime.run(prompt.ids[-1:], [last], again))
    assert outcome.generation == greedy(team.runtime, again, [token], last + 1, LIMIT)


@variants
def test_a_request_that_its_anchors_hold_is_assembled_as_its_prefill(frame: Any, base: Any) -> None:
    """All anchors are copies of the request, so the blend of their deviations is its own deviation."""
    team = Team(KVComm(gamma=1.0, frame=frame, base=base))
    question = some_ids(11, 30)
    first = team.ask(question)
    team.ask(question)
    third = team.ask(question)
    assert served(third) == ["reuse"] * 3
    for agent, outcome in third.items():
        assert outcome.generation.ids == first[agent].generation.ids
        last = len(team.prompts[agent].ids) - 1
        assert error(team.server.caches[agent], team.dense(agent), slice(0, last), layer=1) < 1e-3


@variants
def test_a_dense_call_generates_what_a_plain_prefill_generates(frame: Any, base: Any) -> None:
    team = Team(KVComm(gamma=1.0, frame=frame, base=base))
    for seed in (50, 51):
        for agent, outcome in team.ask(some_ids(9, seed)).items():
            assert outcome.served == "dense"
            assert outcome.generation == plain(team, agent)
            cached = len(team.prompts[agent].ids) - 1
            assert (outcome.rows.cached, outcome.rows.exact, outcome.rows.predicted) == (cached, cached, 0)


def plain(team: Team, agent: str) -> Any:
    ids = team.prompts[agent].ids
    cache = team.runtime.new_cache(len(ids) + LIMIT)
    first = most_likely(team.runtime.run(ids, range(len(ids)), cache))
    return greedy(team.runtime, cache, [first], len(ids), LIMIT)


@pytest.mark.parametrize("tokens", ["whole", "merged"])
def test_dense_keeps_no_pool_and_no_state(tokens: Any) -> None:
    team = Team(Dense(tokens=tokens))
    for seed in range(3):
        done = team.ask(some_ids(9, seed))
        for agent, outcome in done.items():
            assert (outcome.served, outcome.why, outcome.gates) == ("dense", "policy", [])
            assert outcome.generation == plain(team, agent)
    assert team.server.pool is None
    assert not team.server.caches and team.server.shared is None


def test_dense_prefills_the_ids_that_it_is_given() -> None:
    team = Team(Dense())
    prompt = join(FIXED["1"], ["question"], [some_ids(9, 1)])
    other = some_ids(17, 70)
    outcome = team.server.serve(Job("1", (), prompt, "agent_1", True, ids=other))
    team.prompts["1"] = join([other], [], [])
    assert (outcome.ids, outcome.rows.cached) == (other, 16)
    assert outcome.generation == plain(team, "1")


def test_one_new_segment_makes_the_whole_call_dense_and_no_other_call() -> None:
    team = Team(KVComm(gamma=1.0))
    short, long = some_ids(4, 60), some_ids(9, 61)
    for seed in (20, 21):
        team.ask(some_ids(10, seed), {"1": short, "2": short})
    done = team.ask(some_ids(10, 22), {"1": long, "2": short})
    # The first worker's answer is longer than every anchor, so whoever hears it is prefilled.
    assert served(done) == ["reuse", "dense", "dense"]
    assert done["2"].why == done["0"].why == "new:agent_1"
    assert [(gate.segment, gate.decision, gate.why) for gate in done["1"].gates] == [
        ("question", "sharable", "ok"),
        ("agent_1", "new", "length"),
    ]
    assert [(gate.segment, gate.decision) for gate in done["2"].gates] == [("agent_2", "sharable")]
    assert done["0"].gates == []
    pool = team.server.pool
    assert pool is not None
    keys = {name: [anchor.key for anchor in bucket.anchors] for name, bucket in pool.buckets.items()}
    assert keys == {
        "question": ["item0", "item1"],
        "agent_1": ["item0", "item1", "item2"],
        "agent_2": ["item0", "item1"],
    }
    assert done["2"].generation.ids == short


def test_a_new_question_makes_every_call_dense() -> None:
    team = Team(KVComm(gamma=1.0))
    for seed in (20, 21):
        team.ask(some_ids(8, seed))
    done = team.ask(some_ids(9, 22))
    assert served(done) == ["dense"] * 3
    assert all("question" in outcome.why for outcome in done.values())


def test_gamma_0_refuses_what_gamma_1_shares() -> None:
    """Random segments lie equally far from all anchors, so the entropy is far from 0."""
    for gamma, expected in ((0.0, "dense"), (1.0, "reuse")):
        team = Team(KVComm(gamma=gamma))
        question = some_ids(10, 20)
        for _ in range(2):
            team.ask(question)
        assert served(team.ask(question)) == [expected] * 3


@pytest.mark.parametrize("length", [1, 2, 5, 9])
@variants
def test_a_response_leaves_all_but_its_last_row(frame: Any, base: Any, length: int) -> None:
    """A response of one token has no rows; segments without rows are stored, gated, weighed and served."""
    team = Team(KVComm(gamma=1.0, frame=frame, base=base))
    for number in range(4):
        done = team.ask(some_ids(8, 20 + number), {"1": some_ids(length, 70 + number)})
        assert served(done) == (["dense"] if number < 2 else ["reuse"]) * 3
        for agent in ("1", "2"):
            assert team.server.shared.bases[f"agent_{agent}"].tokens == len(done[agent].generation.ids) - 1
        assert "agent_0" not in team.server.shared.bases
        if number >= 2:
            last = len(team.prompts["0"].ids) - 1
            assert error(team.server.caches["0"], team.dense("0"), slice(0, last), layer=0) < 1e-3


def test_a_released_response_keeps_the_rows_of_its_producers_prompt() -> None:
    team = Team(KVComm(gamma=1.0))
    done = team.ask(some_ids(8, 20))
    ids = [*team.prompts["1"].ids, *done["1"].generation.ids[:-1]]
    cache = team.runtime.new_cache(len(ids))
    team.runtime.run(ids, range(len(ids)), cache)
    start = len(team.prompts["1"].ids)
    base = team.server.shared.bases["agent_1"]
    assert base.origin == start
    torch.testing.assert_close(base.keys.permute(1, 2, 0, 3), cache.keys[:, 0, :, start:], **CLOSE)
    torch.testing.assert_close(base.values.permute(1, 2, 0, 3), cache.values[:, 0, :, start:], **CLOSE)


@pytest.mark.parametrize(("base", "header"), [("header", HEADER), ("empty", [])])
def test_a_questions_base_stands_behind_its_header_or_alone(base: Any, header: list[int]) -> None:
    team = Team(KVComm(gamma=1.0, base=base))
    question = some_ids(8, 20)
    team.ask(question)
    ids = [*header, *question]
    cache = team.runtime.new_cache(len(ids))
    team.runtime.run(ids, range(len(ids)), cache)
    kept = team.server.shared.bases["question"]
    assert (kept.tokens, kept.origin) == (8, len(header))
    torch.testing.assert_close(kept.values.permute(1, 2, 0, 3), cache.values[:, 0, :, len(header) :], **CLOSE)


@pytest.mark.parametrize("base", ["header", "empty"])
def test_a_fixed_segments_base_stands_in_the_template_or_alone(base: Any) -> None:
    team = Team(KVComm(base=base))
    assert team.server.shared is not None
    standins = [some_ids(6, 40), some_ids(6, 41)]
    template = join(FIXED["2"], NAMES["2"], standins)
    whole = team.runtime.new_cache(len(template.ids))
    team.runtime.run(template.ids, range(len(template.ids)), whole)
    for number, (segment, kept) in enumerate(zip(template.fixed(), team.server.shared.fixed["2"], strict=True)):
        cache, start, end = whole, segment.start, segment.end
        if base == "empty" and number > 0:
            cache, start, end = team.runtime.new_cache(end - start), 0, end - start
            team.runtime.run(FIXED["2"][number], range(end), cache)
        assert (kept.tokens, kept.origin) == (end - start, start)
        torch.testing.assert_close(kept.keys.permute(1, 2, 0, 3), cache.keys[:, 0, :, start:end], **CLOSE)
        torch.testing.assert_close(kept.values.permute(1, 2, 0, 3), cache.values[:, 0, :, start:end], **CLOSE)


@variants
def test_the_resident_prefix_never_changes(frame: Any, base: Any) -> None:
    team = Team(KVComm(gamma=1.0, frame=frame, base=base, capacity=3, window=2))
    kept = {agent: prefix(team, agent) for agent in NAMES}
    seen = set()
    for number in range(9):
        done = team.ask(some_ids([12, 10, 9, 13, 4, 1, 11, 12, 8][number], number))
        seen |= set(served(done))
        for agent, (keys, values) in kept.items():
            now = prefix(team, agent)
            assert torch.equal(now[0], keys) and torch.equal(now[1], values)
            dense = team.dense(agent)
            length = len(FIXED[agent][0])
            torch.testing.assert_close(keys, dense.keys[:, :, :, :length], **CLOSE)
    assert seen == {"dense", "reuse"}


def prefix(team: Team, agent: str) -> tuple[torch.Tensor, torch.Tensor]:
    cache, length = team.server.caches[agent], len(FIXED[agent][0])
    return cache.keys[:, :, :, :length].clone(), cache.values[:, :, :, :length].clone()


def test_a_prompt_without_shared_segments_is_served_from_its_resident_prefix() -> None:
    runtime = twins("llama3").runtime
    server = Server(runtime, KVComm(gamma=1.0), {}, LIMIT)
    ids = some_ids(12, 3)
    prompt = join([ids], [], [])
    server.prepare("1", prompt)
    for _ in range(2):
        server.begin("item")
        outcome = server.serve(Job("1", (), prompt, "agent_1", False))
        assert (outcome.rows.cached, outcome.rows.exact, outcome.rows.predicted) == (11, 11, 0)
        cache = runtime.new_cache(len(ids) + LIMIT)
        first = most_likely(runtime.run(ids, range(len(ids)), cache))
        assert outcome.generation == greedy(runtime, cache, [first], len(ids), LIMIT)


# One agent with two shared segments, the second of which moves with the length of the first.


@pytest.mark.parametrize("base", ["header", "empty"])
@pytest.mark.parametrize("frame", ["released", "canonical"])
def test_a_moved_segment_is_its_anchor_moved_in_the_canonical_frame_only(frame: Any, base: Any) -> None:
    runtime = twins("llama3").runtime
    server = Server(runtime, KVComm(gamma=1.0, frame=frame, base=base), {}, LIMIT)
    fixed, names = [some_ids(7, 3), some_ids(4, 4), some_ids(6, 5)], ["question", "notes"]
    server.prepare("1", join(fixed, names, [some_ids(5, 1), some_ids(5, 2)]))
    notes, question = some_ids(9, 31), some_ids(40, 30)
    for number in range(2):
        server.begin(f"item{number}")
        anchor = join(fixed, names, [question, notes])
        server.serve(Job("1", (), anchor, "agent_1", False))
    exact = runtime.new_cache(len(anchor.ids))
    runtime.run(anchor.ids, range(len(anchor.ids)), exact)
    server.begin("shorter")
    prompt = join(fixed, names, [question[:3], notes])
    assert server.serve(Job("1", (), prompt, "agent_1", False)).served == "reuse"
    cache = server.caches["1"]
    old, new = anchor.segments[3], prompt.segments[3]
    moved = rotate(exact.keys[:, :, :, old.start : old.end], new.start - old.start, runtime.inv_freq)
    there = cache.keys[:, :, :, new.start : new.end]
    torch.testing.assert_close(there[0], moved[0], **CLOSE)
    away = float((there[1] - moved[1]).abs().max())
    assert away < 1e-3 if frame == "canonical" else away > 0.1
    values = exact.values[:, :, :, old.start : old.end]
    torch.testing.assert_close(cache.values[:, :, :, new.start : new.end], values, **CLOSE)


# Replays and any history.


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@variants
def test_a_replay_leaves_the_very_same_pool(frame: Any, base: Any, dtype: torch.dtype) -> None:
    """Resuming feeds logged ids in place of decoding; the pool must not differ in a bit."""
    policy = KVComm(gamma=0.9, frame=frame, base=base, capacity=2, window=1)
    run, replay = (Team(policy, twins("qwen2", dtype).runtime) for _ in range(2))
    for number in range(6):
        question = some_ids([9, 12, 7, 5, 8, 11][number], number)
        done = run.ask(question)
        logged = {agent: outcome.generation.ids for agent, outcome in done.items()}
        again = replay.ask(question, logged)
        assert pool_hash(run) == pool_hash(replay)
        for agent, outcome in done.items():
            other = again[agent]
            assert (outcome.served, outcome.why, outcome.ids) == (other.served, other.why, other.ids)
            assert (outcome.gates, outcome.generation, outcome.rows) == (other.gates, other.generation, other.rows)


def pool_hash(team: Team) -> str:
    assert team.server.pool is not None
    return team.server.pool.hash()


def test_two_servers_with_one_history_agree_and_with_another_differ() -> None:
    first, second, other = (Team(KVComm(gamma=1.0)) for _ in range(3))
    for number in range(3):
        question = some_ids(9, number)
        assert first.ask(question)["0"].generation == second.ask(question)["0"].generation
        other.ask(some_ids(9, number + 1))
    assert pool_hash(first) == pool_hash(second) != pool_hash(other)


@settings(max_examples=12, deadline=None)
@given(
    variant=st.sampled_from(VARIANTS),
    gamma=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    requests=st.lists(
        st.tuples(st.integers(0, 14), st.integers(0, 3), st.integers(1, 5), st.integers(1, 5)), min_size=3, max_size=7
    ),
)
def test_any_run_keeps_the_rules(variant: tuple[Any, Any], gamma: float, requests: list[Any]) -> None:
    team = Team(KVComm(gamma=gamma, frame=variant[0], base=variant[1], capacity=2, window=2))
    for tokens, seed, first, second in requests:
        done = team.ask(some_ids(tokens, seed), {"1": some_ids(first, seed), "2": some_ids(second, seed)})
        decided = {gate.segment: gate.decision for outcome in done.values() for gate in outcome.gates}
        assert set(decided) == {"question", "agent_1", "agent_2"}
        for agent, outcome in done.items():
            new = [name for name in NAMES[agent] if decided[name] == "new"]
            assert outcome.served == ("dense" if new else "reuse")
            assert outcome.why == ("new:" + ",".join(new) if new else "gate")
            assert outcome.rows.exact + outcome.rows.predicted == outcome.rows.cached == len(outcome.ids) - 1
            assert 0 <= outcome.ttft_ms <= outcome.e2e_ms
            if outcome.served == "reuse":
                last = len(outcome.ids) - 1
                assert error(team.server.caches[agent], team.dense(agent), slice(0, last), layer=0) < 1e-3
        assert done["0"].served == "reuse" or done["0"].generation == plain(team, "0")
        check_pool(team, decided)


def check_pool(team: Team, decided: dict[str, str]) -> None:
    pool = team.server.pool
    assert pool is not None
    for name, bucket in pool.buckets.items():
        assert len(bucket.anchors) <= bucket.capacity + 1
        newest = bucket.anchors[-1].key if bucket.anchors else None
        assert (newest == team.server.shared.key) == (decided[name] == "new")
        hearing = {agent for agent, names in NAMES.items() if name in names}
        assert all(set(anchor.deviations) == hearing for anchor in bucket.anchors)
