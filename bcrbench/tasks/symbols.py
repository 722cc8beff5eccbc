"""Two symbols that are one token each: a text of S symbols is S tokens long (decisions 24, kvcomm.md 3.4).

Texts are written with the placeholders Ω and Δ. Which tokens take their place depends on the tokenizer: the release's
own " Ω" and " Δ" are one token each for Llama 3, and up to two for others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

PLACEHOLDERS = "ΩΔ"
_RUN = re.compile(rf"^ ?[{PLACEHOLDERS}]$|(?: ?[{PLACEHOLDERS}]){{2,}}")
_LONE = re.compile(f"[{PLACEHOLDERS}]")


@dataclass(frozen=True)
class Pair:
    """A way to write the two symbols: in a run the first stands behind `lead`, each other one behind `between`."""

    letters: str
    between: str = " "
    lead: str = " "

    @property
    def name(self) -> str:
        """How logs and errors show it."""
        return f"{self.lead}{self.letters[0]}{self.between}{self.letters[1]}"

    def run(self, symbols: str) -> str:
        """A run of placeholders in these letters."""
        return self.lead + self.between.join(self.letter(symbol) for symbol in symbols)

    def letter(self, symbol: str) -> str:
        """One placeholder's letter."""
        return self.letters[PLACEHOLDERS.index(symbol)]

    def text(self, text: str) -> str:
        """A text with its placeholders replaced: runs as runs, a lone one by its letter."""
        spelled = _RUN.sub(lambda found: self.run(found[0].replace(" ", "")), text)
        return _LONE.sub(lambda found: self.letter(found[0]), spelled)


# Behind spaces, as byte-level BPE takes words; between spaces, as SentencePiece and word tokenizers do; bytes.
CANDIDATES = (
    Pair("ΩΔ"),
    Pair("AB"),
    Pair("ab"),
    Pair("ΩΔ", lead=""),
    Pair("AB", lead=""),
    Pair("01", lead=""),
    Pair("AB", between="", lead=""),
)


@dataclass(frozen=True)
class Count:
    """Symbols of a text, and the tokens that they are."""

    symbols: int
    tokens: int


def runs_of(text: str) -> Iterator[str]:
    """The runs of placeholders in a text, without their spaces."""
    return (found[0].replace(" ", "") for found in _RUN.finditer(text))


def apart(tokenizer: Any, pair: Pair) -> bool:
    """Whether the tokenizer knows the two symbols, as two different tokens."""
    both = [_ids(tokenizer, pair.lead + letter) for letter in pair.letters]
    return all(len(ids) == 1 and ids != [tokenizer.unk_token_id] for ids in both) and both[0] != both[1]


def counted(tokenizer: Any, pair: Pair, alone: Sequence[str], within: Sequence[str]) -> Count | None:
    """The first text whose symbols are not one token each: one that stands `alone`, or a run `within` other text.

    None when all are.
    """
    for text in alone:
        found = Count(len(_LONE.findall(text)), len(_ids(tokenizer, pair.text(text))))
        if found.symbols != found.tokens:
            return found
    for text in within:
        # A run cut to its first symbol leaves its surroundings as they were.
        whole = _ids(tokenizer, pair.text(text))
        cut = _RUN.sub(lambda found: pair.run(found[0].replace(" ", "")[0]), text)
        symbols = sum(map(len, runs_of(text)))
        tokens = len(whole) - len(_ids(tokenizer, pair.text(cut))) + sum(1 for _ in runs_of(text))
        if symbols != tokens:
            return Count(symbols, tokens)
    return None


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))
