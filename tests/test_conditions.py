"""Condition strings: what is typed is read back, and mistakes name the part, the value and what was expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bcrbench.conditions import canonical, parse, settings
from bcrbench.errors import UserError
from bcrbench.repair.selectors import SELECTORS
from bcrbench.reuse.policies import POLICIES

FREE = {"select": st.sampled_from(SELECTORS.names()), "protect": st.sampled_from("012345"),
        "match": st.sampled_from(["cost", "reuse:0.5"])}  # fmt: skip


def values(kind: Any, spot: Any) -> st.SearchStrategy[Any]:
    """Legal values of a setting."""
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if kind is str:
        return FREE[spot.name]
    low, high = spot.metadata["low"], spot.metadata["high"]
    return st.integers(int(low), int(high)) if kind is int else st.floats(low, high)


@st.composite
def typed(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A condition as a person may type it, with the values that it sets."""
    name = draw(st.sampled_from([n for n in POLICIES.names() if n != "random"]))
    policy = POLICIES.get(name)
    hints = get_type_hints(policy)
    chosen = draw(st.lists(st.sampled_from([s.name for s in settings(policy)]), unique=True))
    spots = {spot.name: spot for spot in settings(policy)}
    given_values = {key: draw(values(hints[key], spots[key])) for key in chosen}
    assume(policy(**given_values).check() is None)  # what does not go together is refused elsewhere
    text = name + ":" + ",".join(f"{key}={value}" for key, value in given_values.items())
    return text.rstrip(":"), given_values


@given(typed())
def test_what_is_typed_arrives_and_reads_back(case: tuple[str, dict[str, Any]]) -> None:
    text, wanted = case
    spec = parse(text)
    assert {key: getattr(spec.policy, key) for key in wanted} == wanted
    again = parse(spec.text)
    assert again.policy == spec.policy and again.text == spec.text
    assert spec.policy.effective().items() >= wanted.items()


@pytest.mark.parametrize("name", POLICIES.names())
def test_every_condition_says_what_it_is_and_where_it_comes_from(name: str) -> None:
    policy = POLICIES.get(name)
    assert policy.summary and policy.source
    assert canonical(name, parse(name).policy) == parse(name).text


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("bcr-chunks", ["bcr-chunks", "'bcr-chunk'"]),
        ("dense:tokens=merged,prompts=released-modes", ["prompts=released-modes", "tokens=whole"]),
        ("bcr-chunk:b=8", ["'b'", "known"]),
        ("bcr-chunk:B=0", ["B=0", "1 to 4096"]),
        ("bcr-grow:tau=2", ["tau=2", "0.0 to 1.0"]),
        ("bcr-grow:cap=x", ["cap=x", "an integer"]),
        ("bcr-single:select=drafts", ["'drafts'", "'draft'"]),
        ("bcr-single:rho=nan", ["rho=nan", "0.0 to 1.0"]),
        ("bcr-single:op=copy", ["op=copy", "recompute, transplant"]),
        ("cacheblend:match=rows", ["match=rows", "cost"]),
        ("cacheblend:match=reuse:1.5", ["match=reuse:1.5", "0 to 1"]),
        ("cacheblend:variant=v0", ["variant=v0", "lmcache-v1"]),
        ("random:match=2", ["match=2", "0 to 1"]),
        ("kvcomm:gamma", ["'gamma'", "key=value"]),
        ("kvcomm:window=21", ["window=21", "capacity=20"]),
    ],
)
def test_a_mistake_is_named(text: str, parts: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_log_may_be_matched_whatever_commas_its_name_has(tmp_path: Path) -> None:
    log = tmp_path / "quotes.bcr-chunk+gamma=1.0,frame=canonical,B=8.3a.jsonl"
    log.touch()
    policy = parse(f"cacheblend:match=reuse:{log},gamma=1.0,rho=0.1").policy
    assert policy.effective().items() >= {"match": f"reuse:{log}", "gamma": 1.0, "rho": 0.1}.items()
    with pytest.raises(UserError):  # no such file: its commas part settings again
        parse(f"cacheblend:gamma=1.0,match=reuse:{log}x")
