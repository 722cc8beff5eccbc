"""The repair budget swept, with every coin seed shown (App. C, Table 11)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.figures.base import MOST, Chart, Figure, NoData, accuracy_of, counted, graded, policy
from bcrbench.stats.figures.style import INK, legend, look, named
from bcrbench.stats.seeds import over_seeds
from bcrbench.stats.summary import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Sweep = dict[float, dict[str, float]]  # accuracy by budget and seed


def make(cell: Cell) -> Chart:
    """Chart each family of repairs. Raises NoData where no family has two budgets."""
    arms = graded(cell)
    families = {name: sweep for name, sweep in sweeps(arms).items() if len(sweep) > 1}
    if not families:
        raise NoData("no repair was run at two budgets or more")
    rows = [row for name, sweep in families.items() for row in _rows(name, sweep)]
    ends = [arm for arm in arms if arm.condition == "dense" or policy(arm) == "kvcomm"]
    rows += [{"family": arm.label, "rho": None, "seed": None, "accuracy": accuracy_of(arm)} for arm in ends]
    shown = dict(list(families.items())[:MOST])
    left = len(families) - len(shown)
    notes = [f"{left} of {len(families)} families are not drawn; the data hold all"] if left else []

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        for place, (name, sweep) in enumerate(shown.items()):
            _draw_family(axes, name, sweep, place)
        _ends(axes, ends[:4])
        axes.set_xlabel("budget rho (share of the served cache's rows)")
        axes.set_ylabel("accuracy (%)")
        legend(canvas, axes)

    height = 3.8 + 0.2 * (len(shown) + len(ends[:4]))
    return Chart(f"Accuracy by repair budget, {counted(arms)} a run", rows, draw, height, notes)


def sweeps(arms: Sequence[Arm]) -> dict[str, Sweep]:
    """Accuracies of repairs by family: all that the run record's settings name, apart from budget and seed."""
    found: dict[str, Sweep] = defaultdict(lambda: defaultdict(dict))
    for arm in arms:
        facts = arm.run.effective
        rho = facts.get("rho")
        if isinstance(rho, (int, float)) and not isinstance(rho, bool) and not facts.get("match"):
            seed = " ".join(str(one) for one in (facts.get("seed"), arm.seed) if one is not None)
            found[_family(arm)][float(rho)][seed] = accuracy_of(arm)
    return found


def _family(arm: Arm) -> str:
    """The condition without its budget and seed."""
    name, _, tail = arm.condition.partition(":")
    kept = [part for part in tail.split(",") if part and not part.startswith(("rho=", "seed="))]
    return name + (":" + ",".join(kept) if kept else "")


def _rows(name: str, sweep: Sweep) -> list[Row]:
    rows: list[Row] = []
    for rho in sorted(sweep):
        seeds = sweep[rho]
        summary = over_seeds(list(seeds.values()))
        shared = {"mean": summary.mean, "low": summary.low, "high": summary.high}
        rows += [
            {"family": name, "rho": rho, "seed": seed, "accuracy": seeds[seed], **shared} for seed in sorted(seeds)
        ]
    return rows


def _draw_family(axes: Axes, name: str, sweep: Sweep, place: int) -> None:
    style: dict[str, Any] = look(place)
    budgets = sorted(sweep)
    found = [over_seeds([100 * value for value in sweep[rho].values()]) for rho in budgets]
    sides = [[one.half_width or 0.0 for one in found]] * 2
    many = max(one.seeds for one in found)
    label = named(name) + (f" ({many} seeds)" if many > 1 else "")
    axes.errorbar(budgets, [one.mean for one in found], yerr=sides if many > 1 else None, capsize=2, elinewidth=0.8,
                  **style, label=label)  # fmt: skip
    dots = [(rho, 100 * value) for rho in budgets if len(sweep[rho]) > 1 for value in sweep[rho].values()]
    if dots:
        at, values = zip(*dots)
        axes.scatter(at, values, s=9, color=style["color"], alpha=0.6)


def _ends(axes: Axes, ends: Sequence[Arm]) -> None:
    for arm, line in zip(ends, ("-", ":", "--", "-.")):
        axes.axhline(100 * accuracy_of(arm), color=INK, linewidth=0.9, linestyle=line, label=named(arm.label))


FIGURE = Figure(
    "budget",
    "Accuracy by budget. Where a coin was run with several seeds, small dots are the seeds, the large one is their "
    "mean, and the bar is Student's 95 % interval over seeds: one seed is one draw of the policy, not the policy.",
    "cell",
    make,
)
