"""Table 11: the repair budget swept, several coin seeds a budget (App. C)."""

from __future__ import annotations

from dataclasses import dataclass

from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.paper_tables import measures, wants
from bcrbench.stats.paper_tables.build import Build, place_facts, title_of, where_of
from bcrbench.stats.paper_tables.panel import Column, Line, Panel
from bcrbench.stats.paper_tables.places import Place
from bcrbench.stats.seeds import Seeds, over_seeds

PLACE = Place("gsm8k", 2, 150)
GAMMA = 0.3
BUDGETS = (0.05, 0.10, 0.20, 0.30, 0.40)
SEEDS = ("0", "1", "2", "3")


@dataclass(frozen=True)
class Budget:
    """A budget's runs by coin seed, and their accuracies taken together."""

    rho: float
    runs: dict[str, Arm]

    @property
    def seeds(self) -> Seeds | None:
        """Mean, interval and spread over the seeds that have an accuracy."""
        known = [arm.accuracy for arm in self.runs.values() if arm.accuracy is not None]
        return over_seeds(known) if known else None


def coin_seed(arm: Arm) -> str:
    """What tells realisations of a coin apart: the condition's seed, and the run's where that one is not 0."""
    own, run = str(arm.setting.get("seed")), arm.run.seeds.get("run", 0)
    return own if run in (0, None) else f"{own}.{run}"


def coins(made: Build, cell: Cell | None, want: wants.Want, where: str) -> dict[str, Arm]:
    """The runs of a coin condition by seed, in order."""
    found: dict[str, Arm] = {}
    for arm in want.among(cell) if cell is not None else []:
        found.setdefault(coin_seed(arm), arm)
    if not found:
        made.lack(want.told, where)
    odd = {arm.label for arm in found.values() if want.misses(arm)}
    if odd:
        made.say(f"{want.label}, {where}: the runs are {', '.join(sorted(odd))}, the paper's are {want.told}")
    return {seed: made.take(found[seed]) for seed in sorted(found, key=lambda seed: (len(seed), seed))}


def sweep(made: Build, place: Place, cell: Cell | None) -> list[Budget]:
    """The budgets of the paper and their runs."""
    where = where_of(cell, place)
    found = [Budget(rho, coins(made, cell, wants.bcr("chunk", GAMMA, "coin", rho=rho), where)) for rho in BUDGETS]
    for budget in found:
        absent = [seed for seed in SEEDS if budget.runs and seed not in budget.runs]
        if absent:
            want = wants.bcr("chunk", GAMMA, "coin", rho=budget.rho)
            made.lack(", ".join(f"{want.told},seed={seed}" for seed in absent), where)
    return found


def ends(made: Build, place: Place, cell: Cell | None) -> list[tuple[str, str, Arm | None]]:
    """KVComm, which repairs nothing, and Dense, which repairs everything."""
    where = where_of(cell, place)
    return [
        ("kvcomm", "KVComm (rho=0)", made.arm(cell, wants.kvcomm(GAMMA), where)),
        ("dense", "Dense (rho=1)", made.arm(cell, wants.dense(), where)),
    ]


def build(made: Build) -> list[Panel]:
    """One panel a cell."""
    return [_panel(made, place, cell) for place, cell in made.spots([PLACE])]


def _panel(made: Build, place: Place, cell: Cell | None) -> Panel:
    budgets = sweep(made, place, cell)
    seeds = sorted({*SEEDS, *(seed for budget in budgets for seed in budget.runs)}, key=lambda seed: (len(seed), seed))
    lines = [_line(budget) for budget in budgets]
    for name, label, arm in ends(made, place, cell):
        line = Line(name, {"rho": label})
        line.put("seed_0", measures.accuracy(arm), arm)
        line.put("mean", measures.accuracy(arm), arm)
        lines.append(line)
    columns = [
        Column("rho", "rho", names=True),
        *(Column(f"seed_{seed}", f"seed {seed}", "percent") for seed in seeds),
        Column("mean", "mean", "percent"),
        Column("half_width", "95% CI", "plusminus"),
    ]
    notes = ["accuracy (%) by coin seed; 95% CI: half width of Student's t-interval over seeds. One run has one column"]
    return Panel("11", title_of("The repair budget at several seeds", cell), columns, lines, place_facts(cell), notes)


def _line(budget: Budget) -> Line:
    line = Line(f"{budget.rho:.2f}", {"rho": f"{budget.rho:.2f}"})
    for seed, arm in budget.runs.items():
        line.put(f"seed_{seed}", arm.accuracy, arm)
    seeds = budget.seeds
    if seeds is not None:
        line.put("mean", seeds.mean, *budget.runs.values())
        line.put("half_width", seeds.half_width, *budget.runs.values())
    return line
