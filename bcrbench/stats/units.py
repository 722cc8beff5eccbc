"""Table 8 from the logs of unit-of-choice probes: what choosing well is worth, by unit (paper section 4.2).

Errors are means over prompts; a prompt's coin error is the mean over the coin's seeds. The gap is the coin's error
less attention's, its share is that of the error without repair, and p is the two-sided paired t over prompts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from bcrbench.errors import UserError
from bcrbench.runs.log import ItemOutcome, Log
from bcrbench.runs.schema import ProbeRecord
from bcrbench.stats import differences
from bcrbench.stats.bench_report import bench_report
from bcrbench.stats.bench_rows import is_bench
from bcrbench.stats.paper_tables.printed import printed
from bcrbench.stats.report import Options, Report, report
from bcrbench.stats.summary import Row
from bcrbench.stats.tables import Table, render_records, render_tables

OPERATORS = ("transplant", "recompute")


def report_all(logs: Sequence[Log[ItemOutcome]], options: Options, fmt: str = "table", paper: bool = False) -> Report:
    """Compare runs as `report` does, and tabulate probes or benches.

    Raises UserError for probes beside runs where one list of rows is printed, for a bench beside anything else, and
    for options that mean nothing here.
    """
    if any(map(is_bench, logs)):
        if paper:
            raise UserError("--paper: has no meaning for the logs of a bench")
        return bench_report(logs, options, fmt)
    probes = [log for log in logs if is_probe(log)]
    runs = [log for log in logs if not is_probe(log)]
    if paper and not probes:
        raise UserError(
            "--paper: no probe among the logs, expected one of `bcrbench repair --probe units`, or --table N"
        )
    if not probes:
        return report(runs, options, fmt)
    if not runs:
        _refuse_options(options)
        return units_report(probes, fmt, paper)
    if fmt in ("csv", "json"):
        raise UserError(f"{probes[0].path}: a probe among {len(runs)} runs, expected one kind with --format {fmt}")
    one, two = report(runs, options, fmt), units_report(probes, fmt, paper)
    return Report(f"{one.text}\n\n{two.text}", one.notes + two.notes)


def is_probe(log: Log[Any]) -> bool:
    """Whether a log is a probe's."""
    return log.run.effective.get("probe") == "units"


def _refuse_options(options: Options) -> None:
    for name, value in vars(options).items():
        if value:
            raise UserError(f"--{name}: has no meaning for the logs of a probe")


def units_report(logs: Sequence[Log[Any]], fmt: str = "table", paper: bool = False) -> Report:
    """One table an operator and log, with the paper's figures beside ours if asked for."""
    notes = [note for log in logs for note in _notes(log)]
    if fmt in ("csv", "json"):
        rows = [_place(log) | row for log in logs for operator in OPERATORS for row in unit_rows(log, operator, paper)]
        return Report(render_records(rows, fmt), notes)
    tables = [Table(_title(log, operator), _shown(log, operator, paper)) for log in logs for operator in OPERATORS]
    said = ["budget: rows restored, %; gap: coin less attention; gap_share: gap over no repair, %; p: paired t"]
    said += [f"paper: {_paper()['source']}, error without repair {_paper()['no_repair']}"] if paper else []
    return Report(render_tables(tables, fmt), [*said, *notes])


def unit_rows(log: Log[Any], operator: str, paper: bool = False) -> list[Row]:
    """One row a unit, fine to coarse; the whole segment, where nothing is chosen, comes last.

    Only prompts count whose every measurement of that unit is in the log, and the one without repair.
    """
    bare = {probe.prompt: probe.error for probe in log.probes if probe.chooser == "none"}
    by_unit: dict[int, list[ProbeRecord]] = defaultdict(list)
    for probe in log.probes:
        if probe.operator == operator and probe.prompt in bare:
            by_unit[probe.unit].append(probe)
    return [_row(log, operator, by_unit[unit], bare, paper) for unit in sorted(by_unit)]


def _row(log: Log[Any], operator: str, probes: list[ProbeRecord], bare: dict[int, float], paper: bool) -> Row:
    ours = _attention_and_coin(probes, len(log.run.effective["seeds"]))
    attention, coin = [pair[0] for pair in ours.values()], [pair[1] for pair in ours.values()]
    unrepaired = fmean(bare[prompt] for prompt in ours) if ours else None
    gap = fmean(coin) - fmean(attention) if ours else None
    chosen = probes[0].chooser != "all"
    t, p = paired_t(coin, attention) if chosen else (None, None)
    row: Row = {
        "operator": operator,
        "unit": probes[0].unit,
        "budget": fmean(probe.budget for probe in probes),
        "attention": fmean(attention) if ours else None,
        "coin": fmean(coin) if ours else None,
        "gap": gap,
        "gap_share": gap / unrepaired if gap is not None and unrepaired else None,
        "won": sum(a < c for a, c in zip(attention, coin, strict=True)) if chosen else None,
        "prompts": len(ours),
        "t": t,
        "p": p,
        "no_repair": unrepaired,
    }
    return row | _paper_cells(probes[0].unit) if paper else row


def _attention_and_coin(probes: list[ProbeRecord], seeds: int) -> dict[int, tuple[float, float]]:
    """Errors by prompt; for the whole segment both are the one error there is."""
    choice = {probe.prompt: probe.error for probe in probes if probe.chooser in ("attention", "all")}
    coins: dict[int, list[float]] = defaultdict(list)
    for probe in probes:
        if probe.chooser == "coin":
            coins[probe.prompt].append(probe.error)
    coins |= {probe.prompt: [probe.error] * seeds for probe in probes if probe.chooser == "all"}
    return {k: (choice[k], fmean(coins[k])) for k in sorted(choice) if len(coins.get(k, ())) == seeds}


def paired_t(one: Sequence[float], two: Sequence[float]) -> tuple[float | None, float | None]:
    """Student's t of one - two and its two-sided p; None where fewer than two differences, or equal ones, have none."""
    found = differences.paired_t(differences.differences(one, two))
    return found.statistic, found.p


def _paper() -> dict[str, Any]:
    return printed("8")


def _paper_cells(unit: int) -> Row:
    found: Row = _paper()["panels"]["8"].get(str(unit), {})
    share, won = found.get("gap_share"), found.get("won")
    return {
        "paper_attention": found.get("attention"),
        "paper_coin": found.get("random"),
        "paper_gap": found.get("gap"),
        "paper_gap_share": share / 100 if share is not None else None,
        "paper_won": won[0] if won is not None else None,
        "paper_p": found.get("p"),
        "paper_no_repair": _paper()["no_repair"],
    }


def _shown(log: Log[Any], operator: str, paper: bool) -> list[Row]:
    """Rows for a reader: what the title says is left out, and what `--paper` would make too wide."""
    hidden = {"operator", "prompts", "no_repair", *(("gap", "t", "paper_gap", "paper_no_repair") if paper else ())}
    rows = unit_rows(log, operator, paper)
    return [{name: value for name, value in row.items() if name not in hidden} for row in rows]


def _place(log: Log[Any]) -> Row:
    return {"task": log.run.task, "model": _model(log), "segment_tokens": log.run.effective["segment_tokens"]}


def _model(log: Log[Any]) -> str:
    return str(log.run.model.get("spec"))


def _title(log: Log[Any], operator: str) -> str:
    bare = [probe.error for probe in log.probes if probe.chooser == "none"]
    unrepaired = f", error without repair {fmean(bare):.4f}" if bare else ""
    facts = log.run.effective
    return (
        f"{operator}: task {log.run.task}, model {_model(log)}, role {facts['role']}, "
        f"{facts['segment_tokens']} tokens, {len(bare)} prompts{unrepaired}"
    )


def _notes(log: Log[Any]) -> list[str]:
    facts = log.run.effective
    if log.status != "complete":
        return [f"{log.path}: {log.status}; only what it holds is counted"]
    rho = float(facts["rho"])
    spent = {row["unit"]: row["budget"] for row in unit_rows(log, "transplant")}
    off = [str(unit) for unit, share in spent.items() if share < 1 and abs(share - rho) > 0.1 * rho]
    return [f"{log.path}: units {', '.join(off)} are not budget-matched"] if off else []
