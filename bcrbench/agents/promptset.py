"""Prompt sets: the wording of a task's agents, read from YAML and checked field by field.

A user prompt is `user` + (for an agent that hears others) `peers_intro` + one `peer` block each + `peers_outro`,
then `user_end`. `user` must hold {question} once; a `peer` must hold {output} once and may hold {id} and {role}.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from bcrbench.errors import UserError, told
from bcrbench.yaml_file import load_yaml


class RolePrompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One role's wording. Empty `peers_*` and `peer` fall back to the set's own."""

    role: str
    system: str
    user: str
    few_shot: str = ""
    assistant: str = ""
    user_end: str | None = None
    peers_intro: str | None = None
    peer: str | None = None
    peers_outro: str | None = None


class PromptSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All roles of a task: `workers` in cycle order and the deciding node's `decision`."""

    name: str
    version: int
    question_prefix: str  # stands before a question when that is prefilled alone
    workers: list[RolePrompt]
    decision: RolePrompt
    peers_intro: str = ""
    peer: str = "{output}\n"
    peers_outro: str = ""
    user_end: str = ""

    def role(self, name: str) -> RolePrompt:
        """The wording of a role; workers first, then the deciding node's."""
        for prompt in [*self.workers, self.decision]:
            if prompt.role == name:
                return prompt
        from bcrbench.errors import unknown

        raise unknown("role", name, [w.role for w in self.workers] + [self.decision.role])

    def worker_roles(self) -> list[str]:
        """The workers' roles in cycle order."""
        return [worker.role for worker in self.workers]

    def user_text(self, agent_role: str, heard: list[tuple[str, str]], question: str, outputs: dict[str, str]) -> str:
        """The user turn of an agent. `heard` lists (id, role) of its predecessors; `outputs` maps ids to texts.

        Used with placeholders for question and outputs to get the template, so only exact tokens are replaced, and
        each text once: braces in a few-shot text, a question or an output stay as they are.
        """
        prompt = self.role(agent_role)
        text = _fill(prompt.user, few_shot=prompt.few_shot, question=question)
        if heard:
            text += _pick(prompt.peers_intro, self.peers_intro)
            for peer_id, peer_role in heard:
                text += _fill(_pick(prompt.peer, self.peer), id=peer_id, role=peer_role, output=outputs[peer_id])
            text += _pick(prompt.peers_outro, self.peers_outro)
        return text + _pick(prompt.user_end, self.user_end)


def _pick(own: str | None, shared: str) -> str:
    return shared if own is None else own


def _fill(template: str, **texts: str) -> str:
    """Put the texts in the place of their {name}s, in one pass, so that no text is searched for names itself."""
    names = "|".join(texts)
    return re.sub(rf"\{{({names})\}}", lambda match: texts[match[1]], template)


def load_prompts(path: Path | str) -> PromptSet:
    """Read a prompt set. Raises UserError naming file, role and field."""
    path = Path(path)
    raw: Any = load_yaml(path, "prompts")
    try:
        prompts = msgspec.convert(raw, PromptSet)
    except msgspec.ValidationError as error:
        raise UserError(f"prompts {path}: {_with_roles(str(error), raw)}") from error
    _check(path, prompts)
    return prompts


def _with_roles(message: str, raw: Any) -> str:
    """The schema error, with the role's name where it only counts workers."""
    found = re.search(r"\$\.workers\[(\d+)\]", message)
    worker = raw["workers"][int(found[1])] if found else None
    role = worker.get("role") if isinstance(worker, dict) else None
    return f"{message}, role {role!r}" if role is not None else message


# Where a name in braces is filled in; anywhere else it would reach the model as it stands.
_FILLED = {"question": ("user",), "few_shot": ("user",), "output": ("peer",)}
RESERVED = "\ue000\ue001"  # mark the shared segments while a template is made (prompt.py)


def _check_wording(path: Path, prompts: PromptSet) -> None:
    """Raise UserError for characters that mark segments, and for a placeholder in a field where nothing fills it."""
    for where, field, text in _fields(path, prompts):
        if set(text) & set(RESERVED):
            raise UserError(f"{where}: field {field!r} holds U+E000 or U+E001, expected text without these two")
        if "\0" in text:
            raise UserError(f"{where}: field {field!r} is {told(text)}, expected text without NUL characters")
        for name, places in _FILLED.items():
            if field not in (*places, "few_shot") and f"{{{name}}}" in text:
                raise UserError(f"{where}: field {field!r} holds {{{name}}}, expected it in {places[0]!r} only")


def _fields(path: Path, prompts: PromptSet) -> Iterator[tuple[str, str, str]]:
    """Where, field and text of everything written in a prompt set."""
    roles = [(f"prompts {path}, role {told(prompt.role)}", prompt) for prompt in [*prompts.workers, prompts.decision]]
    for where, part in [(f"prompts {path}", prompts), *roles]:
        for field in part.__struct_fields__:
            text = getattr(part, field)
            if isinstance(text, str):
                yield where, field, text


def _check(path: Path, prompts: PromptSet) -> None:
    if not prompts.workers:
        raise UserError(f"prompts {path}: field 'workers' is empty, expected at least one role")
    _check_wording(path, prompts)
    roles = [p.role for p in [*prompts.workers, prompts.decision]]
    for role in roles:
        if roles.count(role) > 1:
            raise UserError(f"prompts {path}: role {role!r} is given {roles.count(role)} times, expected once")
    for prompt in [*prompts.workers, prompts.decision]:
        where = f"prompts {path}, role {prompt.role!r}"
        if prompt.user.count("{question}") != 1:
            times = prompt.user.count("{question}")
            raise UserError(f"{where}: field 'user' holds {{question}} {times} times, expected once")
        if prompt.few_shot and "{few_shot}" not in prompt.user:
            raise UserError(f"{where}: field 'few_shot' is given, expected {{few_shot}} in field 'user' to place it")
        peer = _pick(prompt.peer, prompts.peer)
        if peer.count("{output}") != 1:
            raise UserError(f"{where}: field 'peer' holds {{output}} {peer.count('{output}')} times, expected once")
        after = peer.split("{output}")[1] + peer.split("{output}")[0]
        if not after.strip():
            raise UserError(f"{where}: field 'peer' needs text around {{output}}: adjacent segments share no boundary")
