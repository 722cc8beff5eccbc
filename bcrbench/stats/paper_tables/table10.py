"""Table 10: latency against segment length, every reused call beside a dense serving of the same ids (App. C)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from bcrbench.runs.schema import RunRecord
from bcrbench.stats.arms import Arm
from bcrbench.stats.bootstrap import mean_of_ratios
from bcrbench.stats.cells import Cell
from bcrbench.stats.paper_tables.build import Build
from bcrbench.stats.paper_tables.details import DetailedCall, detailed_items
from bcrbench.stats.paper_tables.panel import Column, Line, Panel
from bcrbench.stats.paper_tables.places import task_of

TASK = "copymachine"
DEFAULT = "symbols=512"  # the task's own
SYMBOLS = (64, 512, 2048, 4096)
KERNELS = {"flash": "FA2", "sdpa": "SDPA"}
NOTES = [
    "means over reused calls, warm-ups left out; speedup: mean of the paired ratios Dense/row of each call. A row that "
    "drafts is charged for its draft, and shown once more without it. Dense: the paired full prefills of KVComm's run",
]


@dataclass(frozen=True)
class Kind:
    """A row: which runs it is of. `charged` is False for a drafting row's times without the draft."""

    policy: str  # dense, kvcomm or bcr-chunk
    kernel: str = ""
    rho: float = 0.0
    select: str = "coin"
    charged: bool = True

    @property
    def name(self) -> str:
        """Its name among the printed rows."""
        if self.policy != "bcr-chunk":
            return self.policy
        drafts = "" if self.select == "coin" else f" {self.select}" + ("" if self.charged else " uncharged")
        return f"chunk {KERNELS.get(self.kernel, self.kernel)} {self.rho}{drafts}"

    @property
    def label(self) -> str:
        """Its label in the table."""
        if self.policy != "bcr-chunk":
            return {"dense": "Dense", "kvcomm": "KVComm"}[self.policy]
        drafts = "" if self.select == "coin" else f", {self.select}" + ("" if self.charged else ", draft left out")
        return f"BCR-chunk ({KERNELS.get(self.kernel, self.kernel)}{drafts})"


PAPER = [
    Kind("dense", rho=1.0),
    Kind("kvcomm"),
    Kind("bcr-chunk", "sdpa", 0.2),
    *(Kind("bcr-chunk", "flash", rho) for rho in (0.2, 0.1, 0.05, 0.3, 0.4)),
]


@dataclass(frozen=True)
class Timed:
    """One row at one length: paired times by item, milliseconds, and the runs they come from."""

    row: list[list[float]]
    dense: list[list[float]]
    e2e: list[float]
    arms: Sequence[Arm] = ()

    @property
    def ttft(self) -> float | None:
        """Mean milliseconds to the first token."""
        flat = [time for item in self.row for time in item]
        return fmean(flat) if flat else None

    @property
    def seconds(self) -> float | None:
        """Mean seconds of a call."""
        return fmean(self.e2e) / 1000 if self.e2e else None

    @property
    def ratios(self) -> list[float]:
        """Dense's time over the row's, call by call."""
        pairs = [
            (one, two)
            for before, after in zip(self.dense, self.row, strict=True)
            for one, two in zip(before, after, strict=True)
        ]
        return [one / two for one, two in pairs if one > 0 and two > 0]

    @property
    def speedup(self) -> float | None:
        """Mean of the ratios."""
        return fmean(self.ratios) if self.ratios else None

    @property
    def of_means(self) -> float | None:
        """Ratio of the means, which weighs a call by its time."""
        dense = sum(time for item in self.dense for time in item)
        row = sum(time for item in self.row for time in item)
        return dense / row if self.ratios and row else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the mean of ratios, items resampled."""
        found = mean_of_ratios(self.dense, self.row) if self.ratios else None
        return None if found is None or found.low is None or found.high is None else (found.low, found.high)


NOTHING = Timed([], [], [])


def symbols_of(run: RunRecord) -> int | None:
    """Symbols of the shared segment that a run copied, from its `data` (`symbols=S`)."""
    data = run.resolved.get("data") or DEFAULT
    found = re.fullmatch(r"symbols=(\d+)", str(data))
    return int(found[1]) if found else None


def build(made: Build) -> list[Panel]:
    """One panel: times to the first token, speed-ups, end-to-end times."""
    cells = _cells(made)
    lengths = sorted({*SYMBOLS, *cells})
    kinds = [*PAPER, *_others(cells)]
    table = {kind: {n: _timed(made, cells.get(n, []), kind, n) for n in lengths} for kind in kinds}
    lines = [
        _line(metric, kind, table[kind], value)
        for metric, value in METRICS
        for kind in kinds
        if metric != "Speedup vs. Dense" or kind.policy != "dense"
    ]
    head = [
        Column("metric", "Metric", names=True),
        Column("method", "Method", names=True),
        Column("rho", "rho", names=True),
    ]
    extra = [Column(f"{name}_{n}", name, kind, shown=False) for n in lengths for name, kind in EXTRAS]
    columns = [*head, *(Column(f"at_{n}", str(n), "hundredth") for n in lengths), *extra]
    return [Panel("10", "Latency against segment length (symbols)", columns, lines, notes=NOTES)]


METRICS: list[tuple[str, Callable[[Timed], float | None]]] = [
    ("TTFT (ms)", lambda timed: timed.ttft),
    ("Speedup vs. Dense", lambda timed: timed.speedup),
    ("End-to-end (s)", lambda timed: timed.seconds),
]
EXTRAS = (("ratio_of_means", "times"), ("interval", "bounds"), ("calls", "count"))


def short_rows(made: Build, symbols: int) -> list[tuple[str, str, Timed]]:
    """Table 1(c)'s rows: Dense, KVComm, and the fused BCR-chunk at rho 0.2."""
    cells = _cells(made).get(symbols, [])
    kinds = [PAPER[0], PAPER[1], Kind("bcr-chunk", "flash", 0.2)]
    found = [(kind, _timed(made, cells, kind, symbols)) for kind in kinds]
    return [(kind.policy, kind.label, timed) for kind, timed in found]


def _cells(made: Build) -> dict[int, list[Cell]]:
    found: dict[int, list[Cell]] = {}
    for cell in made.cells:
        symbols = symbols_of(cell.arms[0].run) if task_of(cell) == TASK else None
        if symbols is not None:
            found.setdefault(symbols, []).append(cell)
    return found


def _kinds_of(arm: Arm) -> list[Kind]:
    """The rows that a run fills."""
    setting, kernel = arm.setting, str(arm.run.model.get("kernel"))
    if setting.name == "kvcomm":
        return [Kind("kvcomm")]
    if setting.name != "bcr-chunk" or setting.get("op") != "recompute":
        return []
    rho, select = float(setting.get("rho")), str(setting.get("select"))
    own = Kind("bcr-chunk", kernel, rho, select)
    return [own, Kind("bcr-chunk", kernel, rho, select, charged=False)] if select == "draft" else [own]


def _others(cells: dict[int, list[Cell]]) -> list[Kind]:
    """Rows that the logs have and the paper has not: other kernels, budgets and selectors."""
    found = {kind for own in cells.values() for cell in own for arm in cell.arms for kind in _kinds_of(arm)}
    return sorted(found - set(PAPER), key=lambda kind: (kind.kernel, kind.select, kind.rho, not kind.charged))


def _timed(made: Build, cells: Sequence[Cell], kind: Kind, symbols: int) -> Timed:
    source = Kind("kvcomm") if kind.policy == "dense" else kind
    arms = [arm for cell in cells for arm in cell.arms if source in _kinds_of(arm)]
    if not arms:
        made.lack(_wanted(source), f"{TASK}, {symbols} symbols")
        return NOTHING
    if len(arms) > 1:
        made.say(f"{kind.label}, {symbols} symbols: {arms[0].label} is shown; {len(arms) - 1} more fit")
    arm = made.take(arms[0])
    items = [[call for call in calls if counts(call)] for calls in detailed_items(arm)]
    if not any(items):
        made.say(f"{arm.path}: no reused call beside a dense serving of the same ids, so nothing to compare")
        return NOTHING
    dense = [[call.twin.ttft_ms for call in calls if call.twin] for calls in items]
    if kind.policy == "dense":
        return Timed(dense, dense, [call.twin.e2e_ms for calls in items for call in calls if call.twin], [arm])
    left_out = 0.0 if kind.charged else 1.0
    own = [[call.ttft_ms - left_out * call.ms.draft for call in calls] for calls in items]
    e2e = [call.e2e_ms - left_out * call.ms.draft for calls in items for call in calls]
    return Timed(own, dense, e2e, [arm])


def counts(call: DetailedCall) -> bool:
    """Whether a call's time is compared: reused, beside a dense serving, no warm-up."""
    return call.served == "reuse" and not call.warm_up and call.twin is not None


def _wanted(kind: Kind) -> str:
    if kind.policy == "kvcomm":
        return "kvcomm"
    return f"bcr-chunk:rho={kind.rho},select={kind.select} with --kernel {kind.kernel}"


def _line(metric: str, kind: Kind, found: dict[int, Timed], value: Callable[[Timed], float | None]) -> Line:
    line = Line(f"{metric.partition(' ')[0].lower()} {kind.name}", {"metric": metric, "method": kind.label})
    line.values["rho"] = f"{kind.rho:.2f}"
    line.kind = {"TTFT (ms)": "tenth", "Speedup vs. Dense": "times"}.get(metric, "hundredth")
    for symbols, timed in found.items():
        line.put(f"at_{symbols}", value(timed), *timed.arms)
        if metric == "Speedup vs. Dense":
            line.values[f"ratio_of_means_{symbols}"] = timed.of_means
            line.values[f"interval_{symbols}"] = timed.interval
            line.values[f"calls_{symbols}"] = len(timed.ratios)
        if kind.rho == 0.2:
            line.shaded.add(f"at_{symbols}")
    return line
