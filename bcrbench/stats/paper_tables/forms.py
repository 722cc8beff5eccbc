"""How the paper prints each kind of value; numbers are kept as fractions, milliseconds and counts until here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bcrbench.stats.paired import ALPHA


@dataclass(frozen=True)
class Form:
    """A kind of value: how a reader sees it, and what a value of several parts is called in records.

    `scale` turns ours into the paper's unit, 100 for percents. Ties in rounding follow Python's `format`.
    """

    show: Callable[[Any], str]
    scale: float = 1.0
    parts: tuple[str, ...] = ()
    left: bool = False

    def read(self, printed: Any) -> Any:
        """A printed value in our unit."""
        if self.scale == 1.0 or printed is None:
            return tuple(printed) if isinstance(printed, list) else printed
        if isinstance(printed, list):
            return tuple(value / self.scale for value in printed)
        return printed / self.scale


def _signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}"
    return f"+{text[1:]}" if float(text) == 0 else text  # no -0.0


def _p(value: float, digits: int = 3) -> str:
    return "<0.001" if digits == 3 and value < 0.0005 else f"{value:.{digits}f}"


def _interval(value: Sequence[float], digits: int) -> str:
    return f"[{100 * value[0]:.{digits}f}, {100 * value[1]:.{digits}f}]"


FORMS = {
    "text": Form(str, left=True),
    "count": Form(str),
    "percent": Form(lambda value: f"{100 * value:.1f}", 100),
    "share": Form(lambda value: f"{100 * value:.1f}%", 100),
    "points": Form(lambda value: _signed(100 * value, 1), 100),
    "spread": Form(lambda value: f"{100 * value:.1f}", 100),
    "plusminus": Form(lambda value: f"±{100 * value:.1f}", 100),
    "wilson": Form(lambda value: _interval(value, 1), 100, ("low", "high")),
    "wilson0": Form(lambda value: _interval(value, 0), 100, ("low", "high")),
    "bounds": Form(lambda value: f"[{value[0]:.2f}, {value[1]:.2f}]", 1.0, ("low", "high")),
    "rate": Form(lambda value: f"{value:.3f}"),
    "p": Form(_p),
    "p2": Form(lambda value: _p(value, 2)),
    "p*": Form(lambda value: _p(value) + "*" * (value < ALPHA)),
    "split": Form(lambda value: f"{value[0]}/{value[1]}", 1.0, ("b", "c")),
    "calls": Form(lambda value: f"{value[0]}/{value[1]}", 1.0, ("reused", "dense")),
    "won": Form(lambda value: f"{value[0]}/{value[1]}", 1.0, ("won", "of")),
    "tenth": Form(lambda value: f"{value:.1f}"),
    "hundredth": Form(lambda value: f"{value:.2f}"),
    "times": Form(lambda value: f"{value:.2f}x"),
    "rows": Form(lambda value: f"{value:.0f}"),
    "error": Form(lambda value: f"{value:.4f}"),
    "gap": Form(lambda value: _signed(value, 4)),
}
