"""From a chart to bytes: PNG, PDF and SVG, the same bytes for the same chart."""

from __future__ import annotations

import io
import textwrap
from typing import Any, Literal

from bcrbench.stats.figures.base import Chart
from bcrbench.stats.figures.style import WIDTH, styled

# What would name the moment or the version that drew it.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
}

Kind = Literal["png", "pdf", "svg"]


def render(chart: Chart, *kinds: Kind, title: bool = True) -> list[bytes]:
    """Draw a chart once and save it in each format."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with styled():
        figure = Figure(figsize=(WIDTH, chart.height), layout="constrained")
        FigureCanvasAgg(figure)
        chart.draw(figure)
        if title:
            # matplotlib's own wrapping takes dollar signs for mathematics.
            figure.suptitle(textwrap.fill(chart.title, 66), fontsize=9.5)
        return [_saved(figure, kind) for kind in kinds]


def _saved(figure: Any, kind: Kind) -> bytes:
    out = io.BytesIO()
    clear = kind == "svg"  # a page has its own background
    figure.savefig(out, format=kind, metadata=_METADATA[kind], transparent=clear)
    return out.getvalue()
