"""One item run through the agent graph: a request, and the record that it leaves (paper section 3)."""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import replace
from time import perf_counter
from typing import Any, Sequence

from bcrbench.agents.ask import asker
from bcrbench.agents.graph import Agent
from bcrbench.agents.prompt import (
    QUESTION,
    Template,
    build_template,
    encode,
    feedback_name,
    question_header,
    response_name,
)
from bcrbench.agents.promptset import PromptSet
from bcrbench.agents.released_modes import default_mode_text
from bcrbench.engine.model import Runtime
from bcrbench.grading.kit import Kit
from bcrbench.grading.verdict import UNGRADED, Verdict, needs_model, verdict
from bcrbench.repair.layouts import runs
from bcrbench.reuse.policies import Policy
from bcrbench.reuse.serve import Job, Outcome, Server
from bcrbench.reuse.twin import Timing
from bcrbench.runs.schema import Call, Feedback, ItemRecord, Stages
from bcrbench.tasks.base import Grader, Item, Task, final_gold, fixed_length
from bcrbench.tools import TOOLS
from bcrbench.tools.base import Tool


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
        kit: Kit | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.task = task
        self.agents = list(agents)
        self.grader = grader
        self.policy = policy
        self.tokenizer = runtime.tokenizer
        self.templates = {a.id: build_template(self.tokenizer, prompts, a, self.agents) for a in self.agents}
        self._lengths: dict[str, int] = {}
        self.prompts = prompts
        self.kit = kit or Kit()
        if needs_model(grader):
            self.kit.ask = asker(runtime)
        self.tools = self._tools()
        fixed = fixed_length(task)
        self.server = Server(runtime, policy, self._headers(), max_new_tokens, fixed, timing)
        for agent in self.agents:
            self.server.prepare(agent.id, self.templates[agent.id].hollow())

    def _tools(self) -> dict[str, Tool]:
        """The tool behind every agent whose feedback somebody is shown."""
        shown = {name for template in self.templates.values() for name in template.names}
        named = {agent.id: self.prompts.tool_of(agent.role) for agent in self.agents}
        return {agent: TOOLS.get(name)() for agent, name in named.items() if feedback_name(agent) in shown}

    def _headers(self) -> dict[str, list[int]]:
        """What every shared segment is prefilled behind when it is met: question and feedback."""
        header = question_header(self.tokenizer)
        prefixes = {QUESTION: self.prompts.question_prefix}
        for agent in self.agents:
            prefixes[feedback_name(agent.id)] = self.prompts.role(agent.role).feedback_prefix
        return {name: encode(self.tokenizer, header + prefix) for name, prefix in prefixes.items()}

    def longest(self) -> dict[str, int]:
        """Prompt tokens of each agent's last call, for the report of a failed item."""
        return dict(self._lengths)

    def run(self, index: int, item: Item, replay: ItemRecord | None = None) -> ItemRecord:
        """Run one item. With `replay`, the logged response ids take the place of decoding."""
        begin = perf_counter()
        calls = self._calls(item, replay)
        twins = sum(call.twin.e2e_ms for call in calls if call.twin is not None and replay is None) / 1e3
        return self._record(index, item, calls, perf_counter() - begin - twins, replay)

    def fill(self, item: Item) -> None:
        """Run an item only for what it leaves in the pool; nothing of it is graded or kept."""
        with self.server.untimed():
            self._calls(replace(item, agent_golds={}), None)

    def _calls(self, item: Item, replay: ItemRecord | None) -> list[Call]:
        self.server.begin(item.id)
        ids: dict[str, list[int]] = {QUESTION: encode(self.tokenizer, item.question)}
        texts: dict[str, str] = {QUESTION: item.question}
        calls: list[Call] = []
        for number, agent in enumerate(self.agents):
            logged = replay.calls[number] if replay else None
            outcome, equal = self._serve(agent, ids, texts, logged.ids if logged else None)
            content = outcome.generation.ids[:-1]  # the last token never enters a cache
            ids[response_name(agent.id)] = content
            texts[response_name(agent.id)] = self._text(content)
            call = self._call(agent, item, outcome, equal, logged)
            call.twin = logged.twin if logged else outcome.twin
            call.feedback = logged.feedback if logged else self._feedback(agent, item, texts)
            if call.feedback is not None:
                ids[feedback_name(agent.id)] = encode(self.tokenizer, call.feedback.text)
                texts[feedback_name(agent.id)] = call.feedback.text
            calls.append(call)
        return calls

    def _feedback(self, agent: Agent, item: Item, texts: dict[str, str]) -> Feedback | None:
        tool = self.tools.get(agent.id)
        return None if tool is None else tool.feedback(texts[response_name(agent.id)], item.question, self.kit)

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
        if self.policy.prompts == "released-modes":
            return encode(
                self.tokenizer, default_mode_text(self.tokenizer, self.prompts, template.agent, self.agents, texts)
            )
        return encode(self.tokenizer, template.text(texts))

    def _text(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def _call(self, agent: Agent, item: Item, outcome: Outcome, equal: bool | None, logged: Call | None) -> Call:
        text = self._text(outcome.generation.ids)
        gold = item.agent_golds.get(agent.role)
        found = self._verdict(text, gold, logged) if gold is not None else None
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
            prediction=found.prediction if found is not None else None,
            outcome=found.outcome if found is not None else None,
            warm_up=outcome.warm_up,
        )

    def _verdict(self, text: str, gold: str, logged: Call | ItemRecord | None) -> Verdict:
        """The verdict on a text; a replay keeps what the log says, so that it runs no program and asks no model."""
        if logged is None:
            return verdict(self.grader, text, gold, self.kit)
        return Verdict(logged.prediction, logged.outcome or UNGRADED, getattr(logged, "reason", None))

    def _record(self, index: int, item: Item, calls: list[Call], wall: float, replay: ItemRecord | None) -> ItemRecord:
        text = calls[-1].text
        gold = final_gold(self.task, item, [agent.role for agent in self.agents])
        found = self._verdict(text, gold, replay)
        return ItemRecord(
            index=index,
            id=item.id,
            item_hash=item.hash,
            gold=gold,
            text=text,
            prediction=found.prediction,
            outcome=found.outcome,
            reason=found.reason,
            calls=calls,
            wall_s=round(wall, 6),
            pool_hash=self.server.pool.hash() if self.server.pool is not None else None,
            rng=self.server.streams if self.policy.pooled else None,
        )


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
