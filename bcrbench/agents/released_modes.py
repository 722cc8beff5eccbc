"""The release's default mode, whose prompts are not those of its reuse mode (decision 8, kvcomm.md 1.4, 3.1-3.3).

Its text goes through the chat template whole, so that templates which trim do so; responses are stripped; the deciding
node's question stands without its prefix; and a tool's feedback is worded as the prompt set's `default_mode` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bcrbench.agents.graph import Agent
from bcrbench.agents.prompt import QUESTION, feedback_name, render, response_name
from bcrbench.agents.promptset import Heard, PromptSet

OPENING, CLOSING = "```python", "```"  # of an output that is one block of code


def default_mode_text(
    tokenizer: Any, prompts: PromptSet, agent: Agent, agents: Sequence[Agent], texts: Mapping[str, str]
) -> str:
    """An agent's whole prompt in default mode, given the question, responses and feedback."""
    roles = {other.id: other.role for other in agents}
    heard = [_heard(prompts, agent, peer, roles[peer], texts) for peer in agent.hears]
    worded = prompts
    if agent.decides and prompts.default_mode.decision_user is not None:
        user = prompts.default_mode.decision_user
        worded = prompts.mapped(lambda role: role if role.role != agent.role else role.with_user(user))
    wording = worded.role(agent.role)
    return render(tokenizer, wording.system, worded.user_text(agent.role, texts[QUESTION], heard)) + wording.assistant


def _heard(prompts: PromptSet, agent: Agent, peer: str, role: str, texts: Mapping[str, str]) -> Heard:
    """What an agent is shown of a peer; the deciding node is shown feedback as in reuse mode, whatever the output."""
    mode = prompts.default_mode
    output = texts[response_name(peer)].strip()
    feedback = texts.get(feedback_name(peer))
    if feedback is None:
        return Heard(peer, role, output)
    if mode.feedback is not None:
        output += mode.feedback.replace("{feedback}", feedback)
    hidden = mode.feedback is not None or (mode.fenced_only and not _fenced(output))
    return Heard(
        peer, role, output, feedback, prompts.plain_block(agent.role) if hidden and not agent.decides else None
    )


def _fenced(output: str) -> bool:
    return output.startswith(OPENING) and output.endswith(CLOSING)
