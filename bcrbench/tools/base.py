"""What a tool is: it reads an agent's response and answers with a text that later agents are shown (decision 14)."""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol

from bcrbench.grading.kit import Kit
from bcrbench.runs.schema import Feedback

Need = Literal["code", "pages"]


class Tool(Protocol):
    """One tool. What is wrong with a response is told in the feedback, as an agent would see it.

    What is no fault of the response raises RunFailed: agents must not be told of a failure that is ours.
    """

    name: ClassVar[str]
    needs: ClassVar[Need]

    def feedback(self, said: str, question: str, kit: Kit) -> Feedback:
        """The feedback on a response to a question; its text is not empty."""
