"""The figures by name; one file each."""

from __future__ import annotations

from bcrbench.registry import Registry
from bcrbench.stats.figures.base import Figure

_OURS: dict[str, Figure | str] = {
    "warm-up": "bcrbench.stats.figures.warm_up:FIGURE",
    "reuse-line": "bcrbench.stats.figures.accuracy_by_reuse:FIGURE",
    "frontier": "bcrbench.stats.figures.frontier:FIGURE",
    "budget": "bcrbench.stats.figures.budget:FIGURE",
    "units": "bcrbench.stats.figures.unit_of_choice:FIGURE",
    "stages": "bcrbench.stats.figures.stages:FIGURE",
    "along-the-run": "bcrbench.stats.figures.along_the_run:FIGURE",
}
FIGURES: Registry[Figure] = Registry("figure", _OURS, group="bcrbench.figures")


def all_figures() -> list[Figure]:
    """Every figure: ours in the paper's order, then those of other packages by name."""
    names = [*_OURS, *(name for name in FIGURES.names() if name not in _OURS)]
    return [FIGURES.get(name) for name in names]
