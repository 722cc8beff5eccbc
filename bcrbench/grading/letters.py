"""Graders for answers that are one of the letters A to D (App. G; kvcomm.md 4; decision 12).

`letter-substring` is the released one: a gold letter anywhere in the text will do. The four others want a letter that
stands alone, and name one letter at most:

  first-letter   the first letter that stands alone
  last-letter    the last one
  answer-is      the letter behind the last "answer is", "answer:" or "answer is:"; not one of two, as in "A and B"
  single-letter  the whole answer, where that is one letter and punctuation

A capital stands alone unless it is part of a word (also by a hyphen or an apostrophe: D'Artagnan, B-cell, A's), of an
abbreviation (D.C., U.S.A.) or of a sign (C++, 5 °C). `A` in front of a word is the article, unless that word cannot
follow one ("A is", "A because") or "option" stands before it. A small letter counts where it is marked as a choice:
in round or square brackets, behind "option", "choice", "letter" or "answer is", at the head of a line as in "b)", or
as the whole answer. Full-width and enclosed letters are read as plain ones.
"""

from __future__ import annotations

import re
import unicodedata

LETTERS = "ABCD"

# Words that follow the letter A and hardly ever the article.
_AFTER_LETTER = (
    "is|was|are|were|isn't|wasn't|and|or|nor|but|because|since|as|for|if|when|while|though|although|"
    "would|could|should|can|cannot|can't|may|might|must|will|has|have|had|does|doesn't|did|not|"
    "seems|appears|looks|fits|follows|matches|says|states|describes|represents|refers|shows|gives|makes|"
    "that|which|this|it|to|in|on|at|of|with|by|from|than|instead|only|alone"
)
_WORD = r"[^\W_]"
_JOINED = r"_'’&+‐‑–\-"  # joins a letter to a word when nothing else stands between
_START = rf"(?<!{_WORD})(?<!{_WORD}[{_JOINED}])(?<!\b[A-Za-z]\.)(?<!°)"
_END = rf"(?!{_WORD})(?![{_JOINED}]{_WORD})(?!\.{_WORD}(?!{_WORD}))(?![+#])"
_NO_ARTICLE = rf"(?![ \t]+[\"'“‘]*(?!(?i:{_AFTER_LETTER})(?![-'’]?{_WORD})){_WORD})"
_CAPITAL = rf"{_START}(?:[B-D]|A{_NO_ARTICLE}){_END}"
_EITHER = rf"{_START}(?:[B-Db-d]|[Aa]{_NO_ARTICLE}){_END}"

# Markdown, quotes, brackets and LaTeX around a letter.
_LATEX = r"\\(?:boxed|text|textbf|mathbf|mathrm)(?![a-z])"
_DRESS = rf"(?:{_LATEX}|\\[(\[]|[\s*_`\"'“”‘’(\[{{$~:])*"
_UNDRESS = r"[*_`\"'“”‘’)\]}$.]*"
_OPTION = rf"(?<!{_WORD})(?i:option|choice|letter)(?=[\s:*_`\"'(\[]){_DRESS}{_START}(?:[A-Db-d]|a{_NO_ARTICLE}){_END}"
_ANSWER = rf"(?<!{_WORD})(?i:answer)[*_`\"']*(?i:\s+is(?!{_WORD})|\s*:){_DRESS}(?:(?:(?i:the)\s)?{_OPTION}|{_EITHER})"
_SECOND = rf"{_UNDRESS}\s*(?:,|/|&|(?i:and/or|and|or)(?!{_WORD}))\s*(?:{_OPTION}|{_DRESS}{_EITHER})"

_ALONE = re.compile(
    "|".join(
        [
            _ANSWER,
            _OPTION,
            rf"(?<!{_WORD})[(\[][a-d][)\]]",
            rf"{_LATEX}\{{[a-d]\}}",
            rf"^[ \t*_`\"'>-]*[a-d](?=[).:]){_END}",
            _CAPITAL,
        ]
    ),
    re.MULTILINE,
)
_ANSWERED = re.compile(rf"{_ANSWER}(?!{_SECOND})")
_SINGLE = re.compile(r"[\W_]*([A-Da-d])[\W_]*")


class _Letter:
    """Equality with the gold letter, shared by the stricter graders."""

    def correct(self, prediction: str | None, gold: str) -> bool:
        """Whether the prediction is the gold letter."""
        return prediction == gold


class LetterSubstring:
    """The released grader: every capital A to D, in words too, behind the first "output is: "."""

    name = "letter-substring"
    version = 1

    def predict(self, text: str) -> str | None:
        """The letters that occur, in the order of the alphabet, such as "ABD"; None when none does."""
        tail = text.split("output is: ", 1)[-1]
        return "".join(letter for letter in LETTERS if letter in tail) or None

    def correct(self, prediction: str | None, gold: str) -> bool:
        """Whether the gold letter is among those that occur: a text with all four is always correct."""
        return prediction is not None and gold in list(prediction)


class FirstLetter(_Letter):
    """The first letter that stands alone."""

    name = "first-letter"
    version = 1

    def predict(self, text: str) -> str | None:
        """The letter as a capital; None when none stands alone."""
        return next(iter(_letters(text)), None)


class LastLetter(_Letter):
    """The last letter that stands alone."""

    name = "last-letter"
    version = 1

    def predict(self, text: str) -> str | None:
        """The letter as a capital; None when none stands alone."""
        return next(reversed(_letters(text)), None)


class AnswerIs(_Letter):
    """The letter that the text calls its answer; of several such statements the last, which may correct the others."""

    name = "answer-is"
    version = 1

    def predict(self, text: str) -> str | None:
        """The letter as a capital; None when nothing, or only two letters at once, is called the answer."""
        found = [_capital(match) for match in _ANSWERED.finditer(_plain(text))]
        return found[-1] if found else None


class SingleLetter(_Letter):
    """The whole answer, where that is one letter and punctuation."""

    name = "single-letter"
    version = 1

    def predict(self, text: str) -> str | None:
        """The letter as a capital; None for any other text."""
        match = _SINGLE.fullmatch(_plain(text))
        return match[1].upper() if match else None


def _letters(text: str) -> list[str]:
    """All letters that stand alone, as capitals, in order."""
    text = _plain(text)
    whole = _SINGLE.fullmatch(text)
    return [whole[1].upper()] if whole else [_capital(match) for match in _ALONE.finditer(text)]


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _capital(match: re.Match[str]) -> str:
    """The letter at a match's end, a closing bracket aside."""
    return match[0].rstrip(")]}")[-1].upper()
