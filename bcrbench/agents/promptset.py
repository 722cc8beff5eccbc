"""Prompt sets: the wording of a task's agents, read from YAML and checked field by field.

A user prompt is `user` + (for an agent that hears others) `peers_intro` + one `peer` block each + `peers_outro`,
then `user_end`. `user` must hold {question} once; a `peer` must hold {output} once and may hold {id} and {role}.
A role may name a `tool` that is run on its responses; where `peer_feedback` is given, it takes the place of `peer` for
such a role and holds {output}, then {feedback}.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bcrbench.errors import UserError, unknown
from bcrbench.yaml_file import load_yaml

FEEDBACK = "{feedback}"  # where a block shows what a tool said


class RolePrompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One role's wording. `peers_*`, `peer` and `user_end` that are not given fall back to the set's own."""

    role: str
    system: str
    user: str
    few_shot: str = ""
    assistant: str = ""
    user_end: str | None = None
    peers_intro: str | None = None
    peer: str | None = None
    peer_feedback: str | None = None
    peers_outro: str | None = None
    tool: str = ""  # run on this role's responses
    feedback_prefix: str = ""  # stands before the tool's feedback when that is prefilled alone

    def with_user(self, user: str) -> RolePrompt:
        """The same wording with another user turn."""
        return msgspec.structs.replace(self, user=user)


class DefaultMode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the release words its default mode where it differs from its reuse mode (`dense:prompts=released-modes`).

    `decision_user` is the deciding node's `user`. `feedback` is appended to the output of an agent with a tool, and
    workers are not shown `peer_feedback`; without it, `peer_feedback` stays, and with `fenced_only` workers are shown
    it only behind an output that is one fenced block of Python. The deciding node is shown `peer_feedback` always.
    """

    decision_user: str | None = None
    feedback: str | None = None
    fenced_only: bool = False


class PromptSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All roles of a task: `workers` in cycle order and the deciding node's `decision`."""

    name: str
    version: int
    question_prefix: str  # stands before a question when that is prefilled alone
    workers: list[RolePrompt]
    decision: RolePrompt | None  # None: nobody decides, the last worker's response is the answer
    peers_intro: str = ""
    peer: str = "{output}\n"
    peer_feedback: str = ""
    peers_outro: str = ""
    user_end: str = ""
    default_mode: DefaultMode = DefaultMode()

    @property
    def everyone(self) -> list[RolePrompt]:
        """The workers' wordings in cycle order, then the deciding node's, where there is one."""
        return [*self.workers, *([self.decision] if self.decision is not None else [])]

    @property
    def decision_role(self) -> str | None:
        """The deciding node's role; None where nobody decides."""
        return self.decision.role if self.decision is not None else None

    def role(self, name: str) -> RolePrompt:
        """The wording of a role; workers first, then the deciding node's."""
        for prompt in self.everyone:
            if prompt.role == name:
                return prompt
        raise unknown("role", name, [prompt.role for prompt in self.everyone])

    def worker_roles(self) -> list[str]:
        """The workers' roles in cycle order."""
        return [worker.role for worker in self.workers]

    def peer_block(self, agent_role: str, peer_role: str) -> str:
        """The block in which an agent is shown a peer's response, with {feedback} where it sees the peer's tool."""
        block = _pick(self.role(agent_role).peer_feedback, self.peer_feedback)
        return block if block and self.tool_of(peer_role) else self.plain_block(agent_role)

    def plain_block(self, agent_role: str) -> str:
        """The block in which an agent is shown a response and nothing else."""
        return _pick(self.role(agent_role).peer, self.peer)

    def tool_of(self, role: str) -> str:
        """The name of the tool that is run on a role's responses; empty when there is none."""
        return next((prompt.tool for prompt in self.everyone if prompt.role == role), "")

    def user_text(self, agent_role: str, question: str, heard: Sequence[Heard]) -> str:
        """The user turn of an agent that hears some others.

        Used with placeholders for question, outputs and feedback to get the template, so only exact tokens are
        replaced, and each text once: braces in a few-shot text, a question or an output stay as they are.
        """
        prompt = self.role(agent_role)
        text = _fill(prompt.user, few_shot=prompt.few_shot, question=question)
        if heard:
            text += _pick(prompt.peers_intro, self.peers_intro)
            for peer in heard:
                block = peer.block if peer.block is not None else self.peer_block(agent_role, peer.role)
                text += _fill(block, id=peer.id, role=peer.role, output=peer.output, feedback=peer.feedback)
            text += _pick(prompt.peers_outro, self.peers_outro)
        return text + _pick(prompt.user_end, self.user_end)

    def with_tools(self, active: Collection[str]) -> PromptSet:
        """The same set without the tools that are not active: their feedback is shown to nobody."""
        return self.mapped(lambda role: role if role.tool in active else msgspec.structs.replace(role, tool=""))

    def mapped(self, change: Callable[[RolePrompt], RolePrompt]) -> PromptSet:
        """The same set with every role changed."""
        decision = None if self.decision is None else change(self.decision)
        return msgspec.structs.replace(self, workers=[change(worker) for worker in self.workers], decision=decision)

    def respelled(self, change: Callable[[str], str]) -> PromptSet:
        """The same set with every text changed; names stay."""
        return msgspec.convert(_respelled(msgspec.to_builtins(self), change), PromptSet)


_NAMES = ("name", "role", "tool")


def _respelled(part: Any, change: Callable[[str], str]) -> Any:
    if isinstance(part, dict):
        return {key: inner if key in _NAMES else _respelled(inner, change) for key, inner in part.items()}
    if isinstance(part, list):
        return [_respelled(inner, change) for inner in part]
    return change(part) if isinstance(part, str) else part


@dataclass(frozen=True)
class Heard:
    """What an agent hears of a peer; `block` replaces the prompt set's block for it."""

    id: str
    role: str
    output: str
    feedback: str = ""
    block: str | None = None


def _pick(own: str | None, shared: str) -> str:
    return shared if own is None else own


def _fill(template: str, **texts: str) -> str:
    """Put the texts in the place of their {name}s, in one pass, so that no text is searched for names itself."""
    names = "|".join(texts)
    return re.sub(rf"\{{({names})\}}", lambda match: texts[match[1]], template)


def load_prompts(path: Path | str) -> PromptSet:
    """Read a prompt set. Raises UserError naming file, line, role and field."""
    from bcrbench.agents.prompt_check import check

    path = Path(path)
    raw: Any = load_yaml(path, "prompts")
    try:
        prompts = msgspec.convert(raw, PromptSet)
    except msgspec.ValidationError as error:
        raise UserError(f"prompts {path}: {_with_roles(str(error), raw)}") from error
    check(path, prompts)
    return prompts


def _with_roles(message: str, raw: Any) -> str:
    """The schema error, with the role's name where it only counts workers."""
    found = re.search(r"\$\.workers\[(\d+)\]", message)
    worker = raw["workers"][int(found[1])] if found else None
    role = worker.get("role") if isinstance(worker, dict) else None
    return f"{message}, role {role!r}" if role is not None else message
