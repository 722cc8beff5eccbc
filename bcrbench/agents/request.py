"""One item run through the agent graph: a request, and the record that it leaves (paper section 3)."""

from __future__ import annotations

import hashlib
from array import array
from time import perf_counter
from typing import Any, Sequence

from bcrbench.agents.graph import Agent
from bcrbench.agents.prompt import QUESTION, Template, build_template, encode, question_header, response_name
from bcrbench.agents.promptset import PromptSet
from bcrbench.engine.model import Runtime
from bcrbench.repair.layouts import runs
from bcrbench.reuse.policies import Policy
from bcrbench.reuse.serve import Job, Outcome, Server
from bcrbench.runs.schema import Call, ItemRecord, Stages
from bcrbench.tasks.base import Grader, Item, Task, final_gold


class Requests:
    """Runs a cell's items under one policy, in order; the state between items is the server's."""

    def __init__(
        self,
        runtime: Runtime,
        task: Task,
        agents: Sequence[Agent],
        prompts: PromptSet,
        policy: Policy,
        grader: Grader,
        max_new_tokens: int,
    ) -> None:
        self.task = task
        self.agents = list(agents)
        self.grader = grader
        self.policy = policy
        self.tokenizer = runtime.tokenizer
        self.templates = {a.id: build_template(self.tokenizer, prompts, a, self.agents) for a in self.agents}
        self._lengths: dict[str, int] = {}
        header = encode(self.tokenizer, question_header(self.tokenizer) + prompts.question_prefix)
        self.server = Server(runtime, policy, {QUESTION: header}, max_new_tokens)
        for agent in self.agents:
            self.server.prepare(agent.id, self.templates[agent.id].hollow())

    def longest(self) -> dict[str, int]:
        """Prompt tokens of each agent's last call, for the report of a failed item."""
        return dict(self._lengths)

    def run(self, index: int, item: Item, replay: ItemRecord | None = None) -> ItemRecord:
        """Run one item. With `replay`, the logged response ids take the place of decoding."""
        begin = perf_counter()
        self.server.begin(item.id)
        ids: dict[str, list[int]] = {QUESTION: encode(self.tokenizer, item.question)}
        texts: dict[str, str] = {QUESTION: item.question}
        calls: list[Call] = []
        for number, agent in enumerate(self.agents):
            logged = replay.calls[number].ids if replay else None
            outcome, equal = self._serve(agent, ids, texts, logged)
            content = outcome.generation.ids[:-1]  # the last token never enters a cache
            ids[response_name(agent.id)] = content
            texts[response_name(agent.id)] = self._text(content)
            calls.append(self._call(agent, item, outcome, equal))
        return self._record(index, item, calls, perf_counter() - begin)

    def _serve(
        self, agent: Agent, ids: dict[str, list[int]], texts: dict[str, str], logged: list[int] | None
    ) -> tuple[Outcome, bool | None]:
        template = self.templates[agent.id]
        prompt = template.assemble(ids)
        self._lengths[agent.id] = len(prompt.ids)
        whole = self._whole(template, texts) if self.policy.tokens == "whole" else None
        feeds = any(agent.id in other.hears for other in self.agents)
        job = Job(agent.id, agent.hears, prompt, response_name(agent.id), feeds, whole, logged)
        return self.server.serve(job), None if whole is None else whole == prompt.ids

    def _whole(self, template: Template, texts: dict[str, str]) -> list[int]:
        return encode(self.tokenizer, template.text(texts))

    def _text(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def _call(self, agent: Agent, item: Item, outcome: Outcome, equal: bool | None) -> Call:
        text = self._text(outcome.generation.ids)
        gold = item.agent_golds.get(agent.role)
        prediction = self.grader.predict(text) if gold is not None else None
        return Call(
            agent=agent.id,
            role=agent.role,
            served=outcome.served,
            why=outcome.why,
            prompt_tokens=len(outcome.ids),
            prompt_hash=ids_hash(outcome.ids),
            prompt_head=outcome.ids[:8],
            prompt_tail=outcome.ids[-8:],
            rows=outcome.rows,
            text=text,
            ids=outcome.generation.ids,
            finish=outcome.generation.finish,
            ms=Stages(**{name: round(ms, 4) for name, ms in outcome.stages.items()}),
            ttft_ms=round(outcome.ttft_ms, 4),
            e2e_ms=round(outcome.e2e_ms, 4),
            gate=outcome.gates,
            draft_ids=outcome.start.draft_ids,
            selected_spans=runs(outcome.start.rows) or None,
            skipped=outcome.start.skipped,
            text_tokens_equal=equal,
            gold=gold,
            prediction=prediction,
            outcome=None if gold is None else self._grade(prediction, gold),
        )

    def _record(self, index: int, item: Item, calls: list[Call], wall: float) -> ItemRecord:
        text = calls[-1].text
        gold = final_gold(self.task, item, [agent.role for agent in self.agents])
        prediction = self.grader.predict(text)
        return ItemRecord(
            index=index,
            id=item.id,
            item_hash=item.hash,
            gold=gold,
            text=text,
            prediction=prediction,
            outcome=self._grade(prediction, gold),
            calls=calls,
            wall_s=round(wall, 6),
            pool_hash=self.server.pool.hash() if self.server.pool is not None else None,
            rng=self.server.streams if self.policy.pooled else None,
        )

    def _grade(self, prediction: str | None, gold: str) -> str:
        return "correct" if self.grader.correct(prediction, gold) else "wrong"


def ids_hash(ids: Sequence[int]) -> str:
    """First 16 hex digits of the SHA-256 over ids as little-endian int32."""
    words = array("i", ids)
    return hashlib.sha256(words.tobytes()).hexdigest()[:16]


def describe_first(template: Template, item: Item, tokenizer: Any) -> list[dict[str, Any]]:
    """The first agent's prompt, segment by segment with ids and text, for --dry-run."""
    ids = {QUESTION: encode(tokenizer, item.question)}
    prompt = template.assemble(ids)
    return [
        {
            "segment": segment.name,
            "start": segment.start,
            "end": segment.end,
            "ids": prompt.ids[segment.start : segment.end],
            "text": tokenizer.decode(prompt.ids[segment.start : segment.end]),
        }
        for segment in prompt.segments
    ]
