"""Checks of what is generated: greedy decoding without a penalty, and how often numerics alone flip an answer.

Sources: App. G.1 "Decoding" (greedy, sampling parameters inert); App. J and decisions.md's hazards (a penalty that
comes with the checkpoint, numerics taken for an effect).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

import torch

from bcrbench.engine.attention import NAME
from bcrbench.engine.model import Runtime
from bcrbench.stats.intervals import wilson
from bcrbench.verify.bench import TOKENS, Bench, Trial
from bcrbench.verify.exact import first_difference, top_gap
from bcrbench.verify.finding import Finding, count


def greedy(bench: Bench) -> Finding:
    """A Dense run's tokens are those of transformers' own generate, with its own attention and the penalty overridden.

    The rest of the checkpoint's generation config stays as it is: what it says about sampling has to be inert.
    """
    first = bench.trial("dense").items[0]
    call = max(first.calls, key=lambda call: len(call.ids))
    _, ids = bench.prompt(call.agent, bench.cell.items[0], first)
    ours = call.ids[:TOKENS]
    theirs = _generated(bench.runtime, ids, len(ours), sorted(bench.stops))
    at = first_difference(ours, theirs)
    gap, tie = (0.0, False) if at is None else top_gap(bench.runtime, [*ids, *ours[:at]])
    parted = "" if at is None else f"; they part at token {at + 1}, where the two likeliest are {gap:.2g} apart"
    return Finding(
        name="greedy",
        passed=at is None or tie,
        number=len(ours) if at is None else at,
        unit=f"of {count(len(ours), 'token')} alike",
        expected=f"all {len(ours)}, or a tie within the number type's rounding",
        detail=f"agent {call.agent}, item {first.id}, and transformers' generate; {_checkpoint(bench.runtime)}{parted}",
        source="App. G.1",
        differs=at is not None,
    )


def _checkpoint(runtime: Runtime) -> str:
    """What the checkpoint's generation config asks for, and that it is not heard."""
    config = runtime.model.generation_config
    penalty = getattr(config, "repetition_penalty", None)
    carried = f"repetition penalty {penalty:g}, off here" if penalty not in (None, 1.0) else "no repetition penalty"
    sampling = "do_sample, not heard" if getattr(config, "do_sample", False) else "no sampling"
    return f"the checkpoint's config carries {carried}, and {sampling}"


def _generated(runtime: Runtime, ids: list[int], limit: int, stops: list[int]) -> list[int]:
    prompt = torch.tensor([ids], device=runtime.device)
    with _own_attention(runtime.model), torch.inference_mode():
        out = runtime.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=limit,
            do_sample=False,
            repetition_penalty=1.0,
            eos_token_id=stops or None,
            pad_token_id=stops[0] if stops else 0,
        )
    return [int(token) for token in out[0, len(ids) :]]


@contextmanager
def _own_attention(model: Any) -> Iterator[None]:
    """Give a model transformers' plain attention for a while: code that knows nothing of ours."""
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(NAME)


def placebo(bench: Bench) -> Finding:
    """How often answers and tokens flip when nothing changed but the order of sums; a rate, not a verdict."""
    dense, arm = bench.trial("dense"), bench.trial("placebo")
    flips = _flips(dense, arm)
    told = [f"placebo against dense: {_told(dense, arm)}"]
    if any(call.text_tokens_equal is False for _, call in dense.calls()):
        told.append(f"against dense:tokens=merged: {_told(bench.trial('dense:tokens=merged'), arm)}")
    else:
        told.append("dense:tokens=merged has the same prompts")
    return Finding(
        name="placebo",
        passed=True,
        number=100 * flips / len(dense.items),
        unit="% of answers flipped",
        expected="a rate to hold against b/c",
        detail="; ".join(told),
        source="App. J",
        differs=flips > 0,
    )


def _flips(one: Trial, other: Trial) -> int:
    return sum(a.prediction != b.prediction for a, b in zip(one.items, other.items, strict=True))


def _told(one: Trial, other: Trial) -> str:
    flips, total = _flips(one, other), len(one.items)
    low, high = wilson(flips, total)
    alike = [(a, b) for (_, a), (_, b) in zip(one.calls(), other.calls()) if a.prompt_hash == b.prompt_hash]
    parted = [first_difference(a.ids, b.ids) for a, b in alike]
    tokens = sum(len(a.ids) if at is None else at + 1 for (a, _), at in zip(alike, parted))
    turned = sum(at is not None for at in parted)
    return (
        f"{flips} of {total} answers flip [{100 * low:.1f}, {100 * high:.1f}] %, "
        f"{count(turned, 'token')} of {tokens} in {len(alike)} calls with the same prompt"
    )
