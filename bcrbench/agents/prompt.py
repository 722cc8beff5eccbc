"""From wording to ids: a call's prompt as fixed and shared segments.

A template is rendered once per agent through the chat template with a marker in the place of every shared segment.
Each fixed text piece is tokenised on its own, and a call's ids are the concatenation of fixed and shared pieces, so
that a segment's ids never depend on its neighbours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from bcrbench.agents.graph import Agent
from bcrbench.agents.prompt_check import RESERVED
from bcrbench.agents.promptset import Heard, PromptSet
from bcrbench.errors import UserError
from bcrbench.reuse.segments import Prompt, join

QUESTION = "question"
# Private-use characters: prompt sets are refused that hold them, and no chat template trims them away.
_OPEN, _SHUT = RESERVED[0], RESERVED[1]
_MARKER = re.compile(f"{_OPEN}([a-z]+(?:_[0-9]+)?){_SHUT}")


def response_name(agent_id: str) -> str:
    """The shared segment that holds an agent's output."""
    return f"agent_{agent_id}"


def feedback_name(agent_id: str) -> str:
    """The shared segment that holds what a tool said of an agent's output."""
    return f"condition_{agent_id}"


@dataclass(frozen=True)
class Template:
    """An agent's fixed pieces, as texts and ids, and the names of the shared segments between them.

    `standins[i]` are the ids of the literal that stands for shared segment i when the fixed pieces are prefilled
    without content (`base=header`): the release uses the text of a Python set of the placeholder's name.
    """

    agent: Agent
    texts: list[str]
    fixed: list[list[int]]
    names: list[str]
    standins: list[list[int]]

    def assemble(self, contents: Mapping[str, Sequence[int]]) -> Prompt:
        """The call's prompt with the given ids in the shared segments."""
        return join(self.fixed, self.names, [list(contents[name]) for name in self.names])

    def hollow(self) -> Prompt:
        """The template itself, with the stand-ins in the shared segments."""
        return join(self.fixed, self.names, self.standins)

    def text(self, contents: Mapping[str, str]) -> str:
        """The whole text with the given contents."""
        parts = [self.texts[0]]
        for name, after in zip(self.names, self.texts[1:], strict=True):
            parts += [contents[name], after]
        return "".join(parts)


def encode(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a text, without special tokens added."""
    return list(tokenizer.encode(text, add_special_tokens=False))


def build_template(tokenizer: Any, prompts: PromptSet, agent: Agent, agents: Sequence[Agent]) -> Template:
    """Render an agent's wording through the chat template and split it at the shared segments.

    Raises UserError when the tokenizer has no chat template, or no fixed text follows a shared segment (KVComm's
    offsets belong to the fixed segment that follows one).
    """
    roles = {other.id: other.role for other in agents}
    heard = [Heard(p, roles[p], _mark(response_name(p)), _mark(feedback_name(p))) for p in agent.hears]
    user = prompts.user_text(agent.role, _mark(QUESTION), heard)
    wording = prompts.role(agent.role)
    text = render(tokenizer, wording.system, user) + wording.assistant
    pieces = _MARKER.split(text)
    texts, names = pieces[::2], pieces[1::2]
    expected = _MARKER.findall(user)
    if names != expected or set("".join(texts)) & set(RESERVED):
        raise UserError(
            f"prompts {prompts.name!r}, role {agent.role!r}: the model's chat template keeps {names}, expected "
            f"{expected}: each part of the user's turn once and as it is"
        )
    for name, after in zip(names, texts[1:], strict=True):
        if not after.strip():
            raise UserError(f"prompts {prompts.name!r}, role {agent.role!r}: no text follows segment {name!r}")
    return Template(
        agent=agent,
        texts=texts,
        fixed=[encode(tokenizer, piece) for piece in texts],
        names=names,
        standins=[encode(tokenizer, _standin(name)) for name in names],
    )


def _mark(name: str) -> str:
    return f"{_OPEN}{name}{_SHUT}"


def _standin(name: str) -> str:
    inner = "user_question" if name == QUESTION else f"{name}_current"
    return f"{{'{inner}'}} "


def render(tokenizer: Any, system: str, user: str) -> str:
    """System and user turn through the chat template, ready for the answer."""
    if not getattr(tokenizer, "chat_template", None):
        raise UserError("tokenizer has no chat template; expected an instruction-tuned model")
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return _apply(tokenizer, messages, True)


def _apply(tokenizer: Any, messages: list[dict[str, str]], answer: bool) -> str:
    """Text of a chat; raises UserError for a template that is broken or refuses it, as some do a system turn."""
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=answer))
    except Exception as error:  # a template is a program of the model's makers and raises what it likes
        roles = ", ".join(message["role"] for message in messages)
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise UserError(f"chat template refuses the turns {roles} ({reason}), expected one that takes them") from error


def question_header(tokenizer: Any) -> str:
    """What stands before a text that is prefilled alone (`base=header`), as the release builds it.

    For ChatML the release takes the end-of-turn token for the end of the header; that is kept, since the base cache
    depends on it. Templates of other families give the text before the user's content.
    """
    template = tokenizer.chat_template or ""
    bos = tokenizer.bos_token or ""
    if "<|start_header_id|>" in template:
        return f"{bos}<|start_header_id|>user<|end_header_id|>\n"
    if "<|im_start|>" in template:
        return f"{bos}<|im_start|>user<|im_end|>\n"
    mark = f"{_OPEN}{QUESTION}{_SHUT}"
    return _apply(tokenizer, [{"role": "user", "content": mark}], False).split(mark)[0]
