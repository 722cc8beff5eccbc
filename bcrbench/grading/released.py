"""GSM8K's released grader: the model itself reads the value out of the answer, then floats are compared (decision 11).

A grader that changes with the model under test measures that model too; it is here to reproduce the release's figures.
The wording of the request is ours.
"""

from __future__ import annotations

from bcrbench.grading.kit import Kit
from bcrbench.grading.verdict import UNGRADED, Verdict

MAX_TOKENS = 128
OPENING = "A: "  # the release keeps what follows the first one
SYSTEM = (
    "You read the final value out of an answer to a word problem. Reply with that value alone, as digits: no words, "
    "no units, no signs of currency, no separators."
)


class Released:
    """The value that the loaded model names, compared as a float; anything that is no float is wrong."""

    name = "released"
    version = 1
    needs_model = True

    def predict(self, text: str) -> str | None:
        """Nothing: without the model there is no prediction."""
        return None

    def correct(self, prediction: str | None, gold: str) -> bool:
        """Whether both are floats and equal."""
        try:
            return prediction is not None and float(prediction) == float(gold)
        except ValueError:
            return False

    def judge(self, text: str, gold: str, kit: Kit) -> Verdict:
        """Ask the model for the value; ungraded where none is loaded."""
        if kit.ask is None:
            return Verdict(None, UNGRADED, "no model is loaded")
        prediction = kit.ask(SYSTEM, text.partition(OPENING)[2] or text, MAX_TOKENS)
        return Verdict(prediction, "correct" if self.correct(prediction, gold) else "wrong")
