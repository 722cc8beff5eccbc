"""What the checks share: one cell, one loaded model, and the runs that several of them look at.

Runs go through the same Requests that logged runs go through. Items are taken longest question first: a segment is
only predicted when the pool holds two anchors at least as long, so that this order lets even a few items
be reused.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any, Callable

import msgspec

from bcrbench.agents.prompt import QUESTION, Template, build_template, encode, feedback_name, response_name
from bcrbench.agents.request import Requests
from bcrbench.conditions import Spec, parse
from bcrbench.engine.model import Runtime, find_source, load_tokenizer
from bcrbench.errors import RunFailed
from bcrbench.repair.view import RepairView, Start
from bcrbench.reuse.policies import Policy
from bcrbench.reuse.segments import Prompt
from bcrbench.reuse.serve import Server
from bcrbench.runs.matching import Finished
from bcrbench.runs.schema import Call, ItemRecord
from bcrbench.settings import Settings
from bcrbench.sweep.execute import Models, cell_facts, matched
from bcrbench.sweep.plan import Cell, Plan, plan_cell
from bcrbench.tasks.base import Item, fixed_length

FEW = 6  # items, unless a person asks for more
TOKENS = 24  # the paper's check compares 24 greedy tokens (App. B, "Correctness")
SHORT = 48  # tokens; a task whose answers are this short is run to their ends

Around = Callable[[RepairView, Server, Callable[[], Start]], Start]


@dataclass(frozen=True)
class Trial:
    """One run of the bench's items: its item records, and the parameters of the policy that made them."""

    condition: str
    items: list[ItemRecord]
    effective: dict[str, Any]

    def calls(self) -> list[tuple[ItemRecord, Call]]:
        """Every call with its item."""
        return [(item, call) for item in self.items for call in item.calls]

    def reused(self) -> int:
        """Calls served from an assembled cache."""
        return sum(call.served == "reuse" for _, call in self.calls())


class Bench:
    """A cell under test. The model is loaded when a check first asks for it; `light` benches have none."""

    def __init__(self, settings: Settings, repeat: str, light: bool, say: Callable[[str], None]) -> None:
        self.repeat = parse(repeat).text
        self.light = light
        self.say = say
        few = sys.maxsize if light or settings.ids else FEW
        self.cell = plan_cell(msgspec.structs.replace(settings, limit=settings.limit or few))
        self.cell = self.cell.spelled(self.tokenizer)
        self._trials: dict[str, Trial] = {}
        if not light:
            self.cell = _brief(self._longest_first(self.cell), settings.max_new_tokens)

    @cached_property
    def runtime(self) -> Runtime:
        """The model that all checks share."""
        assert not self.light, "a light bench loads no model"
        return Models().get(Plan(self.cell, parse("dense")))

    @cached_property
    def tokenizer(self) -> Any:
        """The model's tokenizer, which needs no weights."""
        return load_tokenizer(find_source(self.cell.settings.model))

    @property
    def stops(self) -> frozenset[int]:
        """What ends a generation: nothing in a task of fixed length."""
        return frozenset() if fixed_length(self.cell.task) else self.runtime.stop_ids()

    @cached_property
    def templates(self) -> dict[str, Template]:
        """Each agent's template."""
        cell = self.cell
        return {a.id: build_template(self.tokenizer, cell.prompts, a, cell.agents) for a in cell.agents}

    def trial(self, condition: str, around: Around | None = None) -> Trial:
        """Run a condition, once for all checks; with `around`, run it anew and look at each start on a cache."""
        name = parse(condition).text
        if around is not None or name not in self._trials:
            self._trials[name] = self.run(condition, around)
        return self._trials[name]

    def run(self, condition: str, around: Around | None = None) -> Trial:
        """Run a condition from an empty pool. Raises RunFailed as a logged run does."""
        begin = monotonic()
        cell, spec = self.cell, self._matched(parse(condition))
        policy = spec.policy if around is None else _observed(spec.policy, lambda *now: around(now[0], server, now[1]))
        requests = Requests(
            self.runtime, cell.task, cell.agents, cell.prompts, policy, cell.grader, cell.max_new_tokens, cell.kit
        )
        server = requests.server
        items = [self._one(requests, index, item) for index, item in enumerate(cell.items)]
        self.say(f"{spec.text}: {len(items)} items in {monotonic() - begin:.1f} s")
        return Trial(spec.text, items, server.policy.effective())

    def prompt(self, agent: str, item: Item, record: ItemRecord | None = None) -> tuple[Prompt, list[int]]:
        """An agent's prompt twice: merged from segments, and as the tokens of its whole text.

        What others said is taken from the record. Without one the item's question stands in for it: a text that any
        task's tokenizer knows.
        """
        ids, texts = self._said(item, record)
        template = self.templates[agent]
        return template.assemble(ids), encode(self.tokenizer, template.text(texts))

    def _said(self, item: Item, record: ItemRecord | None) -> tuple[dict[str, list[int]], dict[str, str]]:
        ids, texts = {QUESTION: encode(self.tokenizer, item.question)}, {QUESTION: item.question}
        for number, agent in enumerate(self.cell.agents):
            # The last token never enters a prompt.
            said = record.calls[number].ids[:-1] if record is not None else ids[QUESTION]
            ids[response_name(agent.id)] = said
            texts[response_name(agent.id)] = str(self.tokenizer.decode(said, skip_special_tokens=True))
            feedback = record.calls[number].feedback if record is not None else None
            told = feedback.text if feedback is not None else item.question
            ids[feedback_name(agent.id)], texts[feedback_name(agent.id)] = encode(self.tokenizer, told), told
        return ids, texts

    def longest_prompt(self) -> list[int]:
        """The longest agent's merged ids on the first item, with a stand-in for what others say."""
        return max((self.prompt(agent.id, self.cell.items[0])[0].ids for agent in self.cell.agents), key=len)

    def _longest_first(self, cell: Cell) -> Cell:
        by_length = sorted(cell.items, key=lambda item: -len(encode(self.tokenizer, item.question)))
        return replace(cell, items=by_length)

    def _matched(self, spec: Spec) -> Spec:
        """The condition with what it is matched to read from the finished runs of the same items."""
        plan = Plan(self.cell, spec)
        return matched(plan, Finished(Path(self.cell.settings.out), cell_facts(plan, self.runtime))).spec

    def _one(self, requests: Requests, index: int, item: Item) -> ItemRecord:
        import torch

        try:
            return requests.run(index, item)
        except torch.OutOfMemoryError as error:
            raise RunFailed(f"out of memory on item {item.id}; prompt tokens: {requests.longest()}") from error


def _brief(cell: Cell, asked: int | None) -> Cell:
    """As many tokens as were asked for; else a short task's own, and the paper's 24 for the others."""
    own = cell.task.max_new_tokens
    return replace(cell, max_new_tokens=asked or (own if own <= SHORT else TOKENS))


def _observed(policy: Policy, around: Callable[[RepairView, Callable[[], Start]], Start]) -> Policy:
    """The same policy, with `around` called in the place of every start on an assembled cache."""
    kind = type(policy)

    class Observed(kind):  # type: ignore[misc, valid-type]
        def start(self, view: RepairView) -> Start:
            return around(view, lambda: kind.start(self, view))

    twin = object.__new__(Observed)
    twin.__dict__.update(policy.__dict__)  # frozen: there is no assigning to it
    return twin
