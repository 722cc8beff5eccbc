"""A chat template is a program of the model's makers: one that breaks or loses a part of the prompt is refused."""

from __future__ import annotations

from typing import Any

import pytest

from bcrbench.agents.graph import assign_roles, build_graph
from bcrbench.agents.prompt import build_template, question_header
from bcrbench.engine.byte_tokenizer import byte_tokenizer
from bcrbench.errors import UserError
from bcrbench.tasks.prompt_files import bundled_prompts

PROMPTS = bundled_prompts("gsm8k")
AGENTS = build_graph("full", 2, assign_roles("cycle", PROMPTS.worker_roles(), 2), PROMPTS.decision.role)


def tokenizer(template: str) -> Any:
    made = byte_tokenizer()
    made.chat_template = template
    return made


def test_a_plain_template_keeps_every_part() -> None:
    for agent in AGENTS:
        made = build_template(byte_tokenizer(), PROMPTS, agent, AGENTS)
        assert made.names == ["question", *(f"agent_{peer}" for peer in agent.hears)]


BROKEN = {
    "syntax": "{% for x in %}",
    "undefined": "{% for m in messages %}{{ m.role.foo.bar }}{% endfor %}",
    "refusal": "{{ raise_exception('System role not supported') }}",
    "type": "{{ 1 + messages[0].role }}",
}


@pytest.mark.parametrize("template", BROKEN.values(), ids=BROKEN)
def test_a_template_that_breaks_or_refuses_is_told(template: str) -> None:
    with pytest.raises(UserError, match="chat template refuses the turns system, user"):
        build_template(tokenizer(template), PROMPTS, AGENTS[0], AGENTS)
    with pytest.raises(UserError, match="chat template refuses the turns user"):
        question_header(tokenizer(template))


LOSSY = {
    "drops": "hello",
    "drops the user": "{{ messages[0].content }} end",
    "repeats": "{% for m in messages %}{{ m.content }} and {{ m.content }} end{% endfor %}",
    "changes": "{% for m in messages %}{{ m.content | upper }} end{% endfor %}",
    "reverses": "{% for m in messages %}{{ m.content[::-1] }} end{% endfor %}",
    "cuts": "{% for m in messages %}{{ m.content[:40] }} end{% endfor %}",
}


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.role)
@pytest.mark.parametrize("template", LOSSY.values(), ids=LOSSY)
def test_a_template_that_loses_or_changes_a_part_is_refused(template: str, agent: Any) -> None:
    with pytest.raises(UserError, match=f"role '{agent.role}'.*chat template keeps"):
        build_template(tokenizer(template), PROMPTS, agent, AGENTS)
