"""Graders for numeric answers, by pattern and without a model.

`exact` takes the last "The answer is N", else the last "#### N", else the last number in the text. `strict` takes only
the asked-for form: a last line "The answer is N". Both compare as numbers, so 18, 18.0 and 36/2 are equal.

A number may have a sign, thousands separators, a fraction bar, a power of ten, and around it a currency, a unit, a per
cent sign, Markdown or LaTeX. Currency, unit and per cent sign do not change its value: 25% is 25.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal
from fractions import Fraction

MAX_LENGTH = 1000  # a longer run of digits is a model in a loop, and Python refuses to convert runs above 4300

_CURRENCY = r"(?:(?:\b(?:US|AU|CA|NZ|HK|A|C))?[$€£¥₹]|\b(?:USD|EUR|GBP|INR|Rs)(?![A-Za-z_])\.?)"
_REWRITES = [
    (re.compile(pattern), put)
    for pattern, put in [
        (r"[\u2212\ufe63\uff0d]", "-"),
        (r"[\u2009\u202f]|\\[,!]", ""),  # thin spaces group digits
        (r"[\u00a0\u2007]", " "),
        (r"\\([$%])", r"\1"),
        (r"\{,\}", ","),
        (r"\\(?:boxed|text|textbf|mathbf|mathrm|displaystyle)(?![a-zA-Z])", ""),
        (r"×|\\times(?![a-zA-Z])|\\cdot(?![a-zA-Z])", "*"),
        (r"(?<=[0-9])\s*(?=\\[dt]?frac)", " "),  # 2\frac{1}{2} is two and a half
        (r"\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}", r"\1/\2"),
        (rf"(?<=[-+]){_CURRENCY}\s?(?=\.?[0-9])", ""),  # keeps a sign next to its number
        (_CURRENCY, " "),
    ]
]

_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)"
_NUMBER = re.compile(
    rf"""
    (?<![A-Za-z0-9_]) (?<![0-9]\.)               # not inside a name, a number or a version
    (?P<sign> (?<![\w)\]}}%.]) [-+] )?           # behind a value it is an operator
    (?:
        (?<!/) (?: (?P<whole>{_WHOLE}) [ ] )? (?P<top>{_WHOLE}) / (?P<bottom>0*[1-9][0-9]*) (?! [0-9/] | \.[0-9] )
      | (?P<decimal> {_WHOLE} (?:\.[0-9]+)? | \.[0-9]+ )
        (?: [eE] (?P<exponent>[-+]?[0-9]{{1,2}}) (?![0-9])
          | [ ]? [*x] [ ]? 10 (?:\^|\*\*) \{{? (?P<power>[-+]?[0-9]{{1,2}}) (?![0-9]) \}}?
        )?
    )
    """,
    re.VERBOSE,
)

# Between a marker and its number: Markdown, quotes, brackets, and a calculation whose result is the number.
_DRESS = r"[\s:*_`\"'“”‘’(\[{~≈\\]*"
_TERM = r"\(*[0-9][0-9.,]*\)*"
_CALCULATION = rf"(?:{_TERM}(?: ?[-+*/÷] ?{_TERM})+ ?=)?"
_PHRASE = re.compile(rf"\banswer\s+is\b{_DRESS}{_CALCULATION}{_DRESS}", re.IGNORECASE)
_HASHES = re.compile(rf"####{_DRESS}{_CALCULATION}{_DRESS}")
_ASKED = re.compile(r"The answer is (-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?)\.?")


def to_number(text: str) -> Fraction | None:
    """The number that a text consists of, its dress aside; None when it is anything else."""
    match = _NUMBER.fullmatch(_undress(text).strip())
    return _value(match) if match else None


def to_text(value: Fraction) -> str:
    """The shortest exact form: an integer, else a finite decimal, else a fraction in lowest terms."""
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return f"{value.numerator}/{value.denominator}"
    quotient = Context(prec=3 * MAX_LENGTH).divide(Decimal(value.numerator), Decimal(value.denominator))
    return format(quotient, "f")


class _Numeric:
    """Numeric equality, shared by the graders below."""

    def correct(self, prediction: str | None, gold: str) -> bool:
        """Whether both are numbers and equal; a gold that is no number is never met."""
        value = None if prediction is None else to_number(prediction)
        return value is not None and value == to_number(gold)


class Exact(_Numeric):
    """The answer wherever the text gives it: phrase, else hashes, else the last number."""

    name = "exact"
    version = 1

    def predict(self, text: str) -> str | None:
        """The answer found in the text, as `to_text` writes it; None when the text has no number."""
        text = _undress(text)
        for found in (_marked(_PHRASE, text), _marked(_HASHES, text), list(_NUMBER.finditer(text))):
            value = _last(found)
            if value is not None:
                return to_text(value)
        return None


class Strict(_Numeric):
    """Only the asked-for form: the last line that is not blank is "The answer is N" and no more."""

    name = "strict"
    version = 1

    def predict(self, text: str) -> str | None:
        """N of a last line "The answer is N" (a full stop may follow), as `to_text` writes it; else None."""
        last = text.rstrip().rpartition("\n")[2].strip()
        match = _ASKED.fullmatch(last)
        value = to_number(match[1]) if match else None
        return None if value is None else to_text(value)


def _undress(text: str) -> str:
    for pattern, put in _REWRITES:
        text = pattern.sub(put, text)
    return text


def _last(matches: list[re.Match[str]]) -> Fraction | None:
    """The value of the last match that has one; the others are not worked out."""
    return next((value for match in reversed(matches) if (value := _value(match)) is not None), None)


def _marked(marker: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """The numbers that directly follow the marker, in order."""
    matches = [_NUMBER.match(text, found.end()) for found in marker.finditer(text)]
    return [match for match in matches if match]


def _value(match: re.Match[str]) -> Fraction | None:
    if len(match[0]) > MAX_LENGTH:
        return None
    sign = -1 if match["sign"] == "-" else 1
    if match["bottom"]:
        return sign * _fraction(match)
    power = int(match["exponent"] or match["power"] or 0)
    return sign * Fraction(match["decimal"].replace(",", "")) * Fraction(10) ** power


def _fraction(match: re.Match[str]) -> Fraction:
    part = Fraction(int(match["top"].replace(",", "")), int(match["bottom"]))
    whole = int((match["whole"] or "0").replace(",", ""))
    return whole + part if part < 1 else part  # "3 6/2" is a number and a division, not a mixed number
