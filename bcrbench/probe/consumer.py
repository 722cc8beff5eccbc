"""The consumer of a probe: a worker's template, and KVComm's pool filled by earlier prompts.

The consumer is the graph's first worker, which hears nobody: the question is its one shared segment, and here a long
text takes its place. Everything goes through the run's own code: base rows, gate, assembly, anchors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

from bcrbench.agents.graph import Agent
from bcrbench.agents.prompt import QUESTION, Template, build_template, encode, question_header
from bcrbench.agents.promptset import PromptSet
from bcrbench.engine.clock import Clock
from bcrbench.engine.model import Runtime, find_source, load_config
from bcrbench.errors import RunFailed, UserError
from bcrbench.probe.reused import ReusedSegment
from bcrbench.reuse.policies.kvcomm import KVComm
from bcrbench.reuse.segments import Prompt
from bcrbench.reuse.shared import SharedSegments


@dataclass(frozen=True)
class Room:
    """What a model's positions leave for a segment when a role's prompt of `around` tokens stands about it."""

    config: Any
    spec: str
    role: str
    around: int

    def check(self, tokens: int, k: int) -> None:
        """Raise UserError unless so many tokens and k decoded rows fit."""
        positions = getattr(self.config, "max_position_embeddings", None)
        room = None if positions is None else positions - self.around - k
        if room is not None and tokens > room:
            raise UserError(
                f"segment of {tokens} tokens: model {self.spec!r} holds {positions} positions, of which the prompt of "
                f"{self.role!r} takes {self.around}; expected at most {room} tokens"
            )


def room_of(spec: str, tokenizer: Any, prompts: PromptSet, agents: Sequence[Agent]) -> Room:
    """The same from a model's configuration, without its weights."""
    template = build_template(tokenizer, prompts, agents[0], agents)
    header = encode(tokenizer, question_header(tokenizer) + prompts.question_prefix)
    return Room(load_config(find_source(spec)), spec, agents[0].role, _around(header, template))


def _around(header: Sequence[int], template: Template) -> int:
    return max(len(header), sum(map(len, template.fixed)))


class Consumer:
    """Serves long texts to one agent, whose pool learns from dense prompts and predicts later ones."""

    def __init__(self, runtime: Runtime, policy: KVComm, prompts: PromptSet, agents: Sequence[Agent]) -> None:
        self.runtime = runtime
        self.agent = agents[0]
        self.template = build_template(runtime.tokenizer, prompts, self.agent, agents)
        header = encode(runtime.tokenizer, question_header(runtime.tokenizer) + prompts.question_prefix)
        self._around = _around(header, self.template)
        self.shared = SharedSegments(runtime, policy, {QUESTION: header}, Clock(runtime.device))
        hollow = self.template.hollow()
        self.shared.prepare(self.agent.id, hollow, runtime.new_cache(len(hollow.ids)))

    def check_length(self, tokens: int, k: int) -> None:
        """Raise UserError unless a segment of so many tokens fits the model with prompt and decoded rows."""
        room = Room(self.runtime.model.config, self.runtime.source.spec, self.agent.role, self._around)
        room.check(tokens, k)

    def learn(self, key: str, ids: Sequence[int]) -> None:
        """Prefill a prompt around a text and keep the deviations that it shows as an anchor."""
        prompt = self._meet(key, ids)
        self.shared.new[QUESTION] = True  # whatever the gate says once the pool has two: every text is to be an anchor
        cache = self.runtime.new_cache(len(prompt.ids))
        self.runtime.run(prompt.ids, range(len(prompt.ids)), cache)
        self.shared.learn(self.agent.id, prompt, cache)

    def reuse(self, key: str, ids: Sequence[int], k: int, index: int) -> ReusedSegment:
        """Assemble a prompt around a text. Raises RunFailed when the gate refuses it."""
        prompt = self._meet(key, ids)
        if self.shared.new_in(prompt):
            raise RunFailed(f"{key}: the gate refused to reuse the segment; a probe needs gamma=1.0")
        cache = self.runtime.new_cache(len(prompt.ids) + k)
        self.shared.assemble(self.agent.id, prompt, cache)
        return ReusedSegment(self.runtime, prompt, cache, k, index)

    def _meet(self, key: str, ids: Sequence[int]) -> Prompt:
        prompt = self.template.assemble({QUESTION: ids})
        self.shared.begin(key)
        self.shared.meet(prompt)
        return prompt
