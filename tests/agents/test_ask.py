"""A question beside the run: the answer is the model's own, and the run's caches stay as they are."""

from __future__ import annotations

from typing import Any

from small_models import twins

from bcrbench.agents.ask import asker
from bcrbench.agents.prompt import encode, render


def test_the_answer_is_what_the_reference_generates() -> None:
    pair = twins("llama")
    runtime = pair.runtime
    said = asker(runtime)("Read.", "The answer is 18", 12)
    ids = encode(runtime.tokenizer, render(runtime.tokenizer, "Read.", "The answer is 18"))
    assert said == _reference(pair.reference, ids, 12, runtime)


def _reference(model: Any, ids: list[int], limit: int, runtime: Any) -> str:
    import torch

    made: list[int] = []
    for _ in range(limit):
        logits = model(torch.tensor([ids + made])).logits[0, -1]
        made.append(int(logits.argmax()))
        if made[-1] in runtime.stop_ids():
            break
    return str(runtime.tokenizer.decode(made, skip_special_tokens=True)).strip()
