"""A question to the model beside the run: for graders that let the model read the answer (decision 11)."""

from __future__ import annotations

from bcrbench.agents.prompt import encode, render
from bcrbench.engine.decode import greedy, most_likely
from bcrbench.engine.model import Runtime
from bcrbench.grading.kit import Ask


def asker(runtime: Runtime) -> Ask:
    """Answers (system, user, tokens) greedily in a cache of its own, so that the run's state stays as it is."""

    def ask(system: str, user: str, limit: int) -> str:
        ids = encode(runtime.tokenizer, render(runtime.tokenizer, system, user))
        room = runtime.room(len(ids), limit)
        cache = runtime.new_cache(len(ids) + room)
        first = most_likely(runtime.run(ids, range(len(ids)), cache))
        said = greedy(runtime, cache, [first], len(ids), room).ids
        return str(runtime.tokenizer.decode(said, skip_special_tokens=True)).strip()

    return ask
