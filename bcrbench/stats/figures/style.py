"""How figures look: colours that colour-blind readers tell apart, a marker beside every colour, no mark of the time.

Colours: Okabe and Ito, "Color Universal Design" (2008), without the yellow, which white paper swallows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from bcrbench.errors import inert

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 5.0  # inches: a phone shows 9 points of it at some 8 pixels
INK = "#202428"  # text and axes; a page draws it in its own text colour
FAINT = "#9aa0a6"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2)))
LONGEST = 44  # characters of a condition in a legend

_RC: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib, so that every machine draws the same
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.alpha": 0.3,
    "text.color": INK,
    "text.parse_math": False,  # a condition's name may hold dollar signs
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "lines.linewidth": 1.4,
    "lines.markersize": 5.0,
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "bcrbench",
    "pdf.fonttype": 42,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw and save inside this: nothing of a user's own settings gets in, and nothing is left behind."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(cast(Any, _RC))
        yield


def look(place: int) -> dict[str, Any]:
    """Colour, marker and line of the n-th condition; after six colours the markers move on by one."""
    turn, k = divmod(place, len(COLOURS))
    return {
        "color": COLOURS[k],
        "marker": MARKERS[(k + turn) % len(MARKERS)],
        "linestyle": LINES[(k + turn) % len(LINES)],
    }


def named(text: str) -> str:
    """A name from a log as a figure may show it: one line, no control characters, cut in the middle."""
    text = inert(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 16]}...{text[-13:]}"


def legend(figure: Figure, axes: Axes, columns: int = 1) -> None:
    """One legend under all panels, where it hides no point."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower left", ncols=columns)
