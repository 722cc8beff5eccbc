"""What a prompt set must hold beyond its schema; every refusal names file, line, role and field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bcrbench.agents.promptset import DefaultMode, PromptSet, RolePrompt
from bcrbench.errors import UserError, told
from bcrbench.tools import TOOLS
from bcrbench.yaml_file import line_of

RESERVED = "\ue000\ue001"  # mark the shared segments while a template is made (prompt.py)

# What is filled in where; anywhere else a name in braces would reach the model as it stands. Few-shot texts and system
# prompts are free to hold other braces: code, or letters that stand for quantities.
_PLACES = {
    "user": ("question", "few_shot"),
    "peer": ("id", "role", "output"),
    "peer_feedback": ("id", "role", "output", "feedback"),
    "decision_user": ("question",),
    "feedback": ("feedback",),
    "peers_intro": (), "peers_outro": (), "user_end": (), "question_prefix": (), "feedback_prefix": (),
    "assistant": (), "system": (),
}  # fmt: skip
_FREE = ("system", "assistant")
_OURS = ("question", "few_shot", "output", "feedback")
Wrong = Callable[[str, str], UserError]  # field, what is wrong with it
_NAME = re.compile(r"\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True)
class _Text:
    """One text of a prompt set and where it stands in its file."""

    path: Path
    keys: tuple[str | int, ...]
    role: str | None
    text: str

    @property
    def field(self) -> str:
        """The field's own name."""
        return str(self.keys[-1])

    def wrong(self, told_: str) -> UserError:
        """The refusal of this text."""
        return refusal(self.path, self.keys, self.role, told_)


def refusal(path: Path, keys: tuple[str | int, ...], role: str | None, told_: str) -> UserError:
    """An error about a field: file, line, role, field, and what is wrong with it."""
    line = line_of(path, *keys)
    place = f"{path}:{line}" if line is not None else str(path)
    whose = f", role {told(role)}" if role is not None else ""
    return UserError(f"prompts {place}{whose}: field {str(keys[-1])!r} {told_}")


def check(path: Path, prompts: PromptSet) -> None:
    """Raise UserError for a set that cannot make the templates which its fields promise."""
    if not prompts.workers:
        raise UserError(f"prompts {path}: field 'workers' is empty, expected at least one role")
    for text in _texts(path, prompts):
        _check_text(text)
    _check_default_mode(path, prompts.default_mode)
    _check_roles(path, prompts)
    for keys, prompt in _roles(prompts):
        _check_role(path, keys, prompt, prompts)


def _roles(prompts: PromptSet) -> Iterator[tuple[tuple[str | int, ...], RolePrompt]]:
    for number, worker in enumerate(prompts.workers):
        yield ("workers", number), worker
    if prompts.decision is not None:
        yield ("decision",), prompts.decision


def _texts(path: Path, prompts: PromptSet) -> Iterator[_Text]:
    """Every text that somebody wrote in the set."""
    parts = [((), None, prompts), (("default_mode",), None, prompts.default_mode)]
    parts += [(keys, prompt.role, prompt) for keys, prompt in _roles(prompts)]  # type: ignore[misc]
    for keys, role, part in parts:
        for field in part.__struct_fields__:
            text = getattr(part, field)
            if isinstance(text, str):
                yield _Text(path, (*keys, field), role, text)


def _check_text(text: _Text) -> None:
    """Characters that mark segments, and placeholders in a field where nothing fills them."""
    if set(text.text) & set(RESERVED):
        raise text.wrong("holds U+E000 or U+E001, expected text without these two")
    if "\0" in text.text:
        raise text.wrong(f"is {told(text.text)}, expected text without NUL characters")
    if text.field not in _PLACES:
        return
    filled = _PLACES[text.field]
    for name in _NAME.findall(text.text):
        if name not in filled and (text.field not in _FREE or name in _OURS):
            expected = " or ".join(f"{{{other}}}" for other in filled) or "no placeholder here"
            raise text.wrong(f"holds the placeholder {{{name}}}, expected {expected}")


def _check_default_mode(path: Path, mode: DefaultMode) -> None:
    def wrong(field: str, told_: str) -> UserError:
        return refusal(path, ("default_mode", field), None, told_)

    for field, name in (("decision_user", "question"), ("feedback", "feedback")):
        text = getattr(mode, field)
        if text is not None:
            _once(wrong, field, text, name)


def _check_roles(path: Path, prompts: PromptSet) -> None:
    roles = [prompt.role for prompt in prompts.everyone]
    for role in roles:
        if roles.count(role) > 1:
            raise UserError(f"prompts {path}: role {role!r} is given {roles.count(role)} times, expected once")


def _check_role(path: Path, keys: tuple[str | int, ...], prompt: RolePrompt, prompts: PromptSet) -> None:
    def wrong(field: str, told_: str) -> UserError:
        own = getattr(prompt, field, None) not in (None, "")
        return refusal(path, (*keys, field) if own else (field,), prompt.role, told_)

    _once(wrong, "user", prompt.user, "question")
    if prompt.few_shot and "{few_shot}" not in prompt.user:
        raise wrong("few_shot", "is given, expected {few_shot} in field 'user' to place it")
    if prompt.tool:
        try:
            TOOLS.check(prompt.tool)
        except UserError as error:
            raise wrong("tool", f"is {told(prompt.tool)}: {error}") from error
    _check_peer(wrong, "peer", prompts.peer if prompt.peer is None else prompt.peer, ["output"])
    block = prompts.peer_feedback if prompt.peer_feedback is None else prompt.peer_feedback
    if block:
        _check_peer(wrong, "peer_feedback", block, ["output", "feedback"])


def _once(wrong: Wrong, field: str, text: str, name: str) -> None:
    times = text.count(f"{{{name}}}")
    if times != 1:
        raise wrong(field, f"holds {{{name}}} {times} times, expected once")


def _check_peer(wrong: Wrong, field: str, block: str, names: list[str]) -> None:
    """Each name once, in this order, with text between neighbours, over a block's end too: blocks repeat."""
    for name in names:
        _once(wrong, field, block, name)
    pieces = re.split("|".join(rf"\{{{name}\}}" for name in names), block)
    places = [block.index(f"{{{name}}}") for name in names]
    if places != sorted(places):
        raise wrong(field, f"expected {{{'}, then {'.join(names)}}}")
    if not all(piece.strip() for piece in [*pieces[1:-1], pieces[-1] + pieces[0]]):
        raise wrong(field, f"needs text around {{{'} and {'.join(names)}}}: adjacent segments share no boundary")
