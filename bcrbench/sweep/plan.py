"""A planned run: settings and a condition, checked as far as possible before a model is loaded."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from bcrbench.agents.graph import Agent, assign_roles, build_graph
from bcrbench.agents.promptset import FEEDBACK, PromptSet, load_prompts
from bcrbench.conditions import Spec, parse
from bcrbench.errors import UserError, unknown
from bcrbench.grading.kit import Kit
from bcrbench.grading.verdict import runs_code
from bcrbench.reuse.policies import KVComm
from bcrbench.settings import Settings
from bcrbench.sweep.item_order import order_of
from bcrbench.tasks import TASKS
from bcrbench.tasks.base import Grader, Item, Spelled, Task, items_hash
from bcrbench.tasks.hub import is_hub_name
from bcrbench.tools import TOOLS
from bcrbench.tools.recorded import read_pages

WARM_UP = 2  # reused calls with a twin whose times are left out: each order once


@dataclass(frozen=True)
class Cell:
    """Task, items, agents and prompts: what conditions are compared inside."""

    settings: Settings
    task: Task
    items: list[Item]
    total: int
    agents: list[Agent]
    prompts: PromptSet
    grader: Grader
    max_new_tokens: int
    kit: Kit = field(default_factory=Kit)
    spelling: str | None = None  # of the symbols, where the task has some
    unread: str | None = None  # the data whose items a dry run leaves unread
    spare: list[Item] = field(default_factory=list)  # the task's items after the last chosen one, for filling pools

    def spelled(self, tokenizer: Any) -> Cell:
        """The cell with its texts as the tokenizer needs them. Raises UserError when the task finds no spelling."""
        if not isinstance(self.task, Spelled) or self.spelling is not None:
            return self
        spelling = self.task.spell(tokenizer, self.prompts, self.items)
        prompts = self.prompts.respelled(spelling.text)
        items, spare = (
            [replace(item, question=spelling.text(item.question), written=item.question) for item in known]
            for known in (self.items, self.spare)
        )
        return replace(self, prompts=prompts, items=items, spare=spare, spelling=spelling.name)

    @property
    def items_hash(self) -> str:
        """Hash of the item set in order."""
        return items_hash(self.items)

    @property
    def runs_code(self) -> bool:
        """Whether programs that a model wrote are run, by an agent's tool or by the grader: allowed, and asked for."""
        return self.kit.code and ("code" in self._needs or runs_code(self.grader))

    @property
    def means(self) -> list[Any]:
        """What tools and graders have at hand, as far as it can change an outcome of this cell."""
        pages = self.kit.pages.hash if self.kit.pages is not None and "pages" in self._needs else None
        return [self.runs_code, pages]

    @property
    def _needs(self) -> set[str]:
        return {TOOLS.get(name)().needs for name in tools_of(self.prompts)}


@dataclass(frozen=True)
class Plan:
    """One run to be made: a cell, a condition, and what a person gave for them."""

    cell: Cell
    spec: Spec
    given: dict[str, Any] = field(default_factory=dict)

    @property
    def warm(self) -> list[Item]:
        """The items that fill the pool before the first one; none of the run's own is among them."""
        policy = self.spec.policy
        return self.cell.spare[: policy.warm] if isinstance(policy, KVComm) else []


class Shelf:
    """What a sweep's planning has read so far: every data source once, every cell once.

    Without `fetch`, data sets on the hub stay unread; a cell of one has no items and says so.
    """

    def __init__(self, fetch: bool = True) -> None:
        self.fetch = fetch
        self._items: dict[tuple[str, str | None], list[Item]] = {}
        self._cells: dict[bytes, Cell] = {}

    def cell(self, settings: Settings) -> Cell:
        """The cell of these settings. Raises UserError as `plan_cell` does."""
        key = msgspec.json.encode(settings)
        if key not in self._cells:
            self._cells[key] = plan_cell(settings, self)
        return self._cells[key]

    def items(self, task: Task, data: str | None) -> list[Item] | None:
        """All items of a task, or None where they are not to be read now."""
        if not self.fetch and data is not None and on_hub(data):
            return None
        key = (task.name, data)
        if key not in self._items:
            self._items[key] = task.items(data)
            _check_ids(self._items[key])
        return self._items[key]


def on_hub(data: str) -> bool:
    """Whether data has the form of a hub data set's name, and no file or folder here has that name."""
    source = data.partition("?")[0]
    return is_hub_name(source) and not os.path.exists(data) and not os.path.exists(source)


def plan_cell(settings: Settings, shelf: Shelf | None = None) -> Cell:
    """Resolve task, items, graph, prompts and grader. Raises UserError for anything that does not exist."""
    task = TASKS.get(settings.task)()
    kit = Kit(settings.allow_code_execution, read_pages(Path(settings.retrieval)) if settings.retrieval else None)
    prompts = load_prompts(settings.prompts) if settings.prompts else task.prompts()
    prompts = prompts.with_tools([name for name in tools_of(prompts) if TOOLS.get(name)().needs in kit.offers])
    roles = assign_roles(settings.roles, prompts.worker_roles(), settings.agents)
    agents = build_graph(settings.topology, settings.agents, roles, prompts.decision_role)
    prompts = prompts.with_tools(_shown(prompts, agents))
    name = settings.grader or task.default_grader
    if name not in task.graders:
        raise unknown(f"grader of task {task.name!r}", name, task.graders)
    everything = (shelf or Shelf()).items(task, settings.data)
    if settings.limit is None and settings.ids is None and settings.data is None:
        settings = msgspec.structs.replace(settings, limit=getattr(task, "default_limit", None))
    settings = _timed(settings, task)
    order, chosen = order_of(settings.order), choose(everything or [], settings)
    return Cell(
        settings=settings,
        task=task,
        items=order(chosen),
        total=len(everything or []),
        agents=agents,
        prompts=prompts,
        grader=task.graders[name],
        max_new_tokens=settings.max_new_tokens or task.max_new_tokens,
        kit=kit,
        unread=settings.data if everything is None else None,
        spare=_after(everything or [], chosen),
    )


def _timed(settings: Settings, task: Task) -> Settings:
    """The settings with twins and warm-ups resolved."""
    twins = bool(getattr(task, "twins", False)) if settings.twins is None else settings.twins
    warm_up = (WARM_UP if twins else 0) if settings.warm_up is None else settings.warm_up
    return msgspec.structs.replace(settings, twins=twins, warm_up=warm_up)


def _shown(prompts: PromptSet, agents: list[Agent]) -> set[str]:
    """The tools whose feedback some agent of the graph is shown; the others are run for nobody."""
    roles = {agent.id: agent.role for agent in agents}
    heard = {(agent.role, roles[peer]) for agent in agents for peer in agent.hears}
    return {prompts.tool_of(peer) for role, peer in heard if FEEDBACK in prompts.peer_block(role, peer)}


def tools_of(prompts: PromptSet) -> list[str]:
    """The tools that a prompt set's roles name."""
    return sorted({role.tool for role in prompts.everyone if role.tool})


def _check_ids(items: list[Item]) -> None:
    """Ids are how items are paired and how anchors are told apart."""
    twice = [name for name, count in Counter(item.id for item in items).items() if count > 1]
    if twice:
        raise UserError(f"item id {twice[0]!r} is given twice, expected each id once")


def choose(items: list[Item], settings: Settings) -> list[Item]:
    """The items that `--ids` and `--limit` leave, in the task's order. Raises UserError for an unknown id."""
    if settings.ids is not None:
        by_id = {item.id: item for item in items}
        for wanted in settings.ids:
            if wanted not in by_id:
                raise _unknown_id(wanted, items)
        items = [item for item in items if item.id in set(settings.ids)]
    return items[: settings.limit] if settings.limit else items


def _after(items: list[Item], chosen: list[Item]) -> list[Item]:
    """The items that come after the last of the chosen ones in the task's order."""
    last = max((number for number, item in enumerate(items) if item is chosen[-1]), default=-1) if chosen else -1
    return items[last + 1 :]


def _unknown_id(wanted: str, items: list[Item]) -> UserError:
    if len(items) < 50:
        return unknown("item id", wanted, [item.id for item in items])
    between = f"from {items[0].id!r} to {items[-1].id!r}"
    return UserError(f"unknown item id {wanted!r}; the task has {len(items)}, {between}")


_ORDER = {"dense": 0, "kvcomm": 1}  # what others are paired with or matched to runs first


def plan(settings: Settings, conditions: list[str], given: dict[str, Any], shelf: Shelf | None = None) -> list[Plan]:
    """The runs of one cell, Dense and KVComm first, each condition once."""
    specs = {spec.text: spec for spec in map(parse, conditions)}
    ordered = sorted(specs.values(), key=lambda spec: _ORDER.get(spec.text.partition(":")[0], len(_ORDER)))
    cell = (shelf or Shelf()).cell(settings)
    plans = [Plan(cell, spec, {**given, "condition": spec.text}) for spec in ordered]
    for one in plans:
        _check_warm(one)
    return plans


def _check_warm(plan: Plan) -> None:
    wanted = getattr(plan.spec.policy, "warm", 0)
    if plan.cell.unread is None and len(plan.warm) < wanted:
        raise UserError(
            f"condition {plan.spec.text!r}: warm={wanted}: the task has {len(plan.cell.spare)} items after those of "
            "the run, expected as many; a --limit leaves some"
        )


def out_folder(plans: list[Plan]) -> Path:
    """Where the runs go."""
    return Path(plans[0].cell.settings.out)
