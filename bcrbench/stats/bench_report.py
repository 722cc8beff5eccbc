"""The log of `bcrbench bench` as tables: stages, bounds, ratios, decoding, and targets beside what was reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bcrbench.errors import UserError
from bcrbench.runs.log import Log
from bcrbench.stats.bench_curve import SAID as CURVE_SAID
from bcrbench.stats.bench_curve import curve_rows, law_rows, left_out
from bcrbench.stats.bench_rows import CURVE, THROUGHPUT, Bench, decode_rows, is_bench, is_prompt, speed_rows, stage_rows
from bcrbench.stats.bench_targets import target_rows
from bcrbench.stats.bench_throughput import SAID as THROUGHPUT_SAID
from bcrbench.stats.bench_throughput import throughput_rows
from bcrbench.stats.report import Options, Report
from bcrbench.stats.summary import Row
from bcrbench.stats.tables import Table, footnotes, render_records, render_tables


def refuse_benches(logs: Sequence[Log[Any]], where: str) -> None:
    """Raise UserError for a bench among logs that something else is made of."""
    for log in logs:
        if is_bench(log):
            raise UserError(f"{log.path}: a bench, expected runs {where}")


def bench_report(logs: Sequence[Log[Any]], options: Options, fmt: str = "table") -> Report:
    """The tables of benches. Raises UserError for runs or probes among them, and for options that mean nothing here."""
    for log in logs:
        if not is_bench(log):
            raise UserError(f"{log.path}: no bench among {len(logs)} logs of which one is, expected one kind")
    for name, value in vars(options).items():
        if value:
            raise UserError(f"--{name}: has no meaning for the logs of a bench")
    notes = [note for log in logs for note in _notes(log)]
    if fmt in ("csv", "json"):
        return Report(render_records([row for log in logs for row in _records(log)], fmt), notes)
    return Report(render_tables([table for log in logs for table in _tables(log)], fmt), notes)


def bench_page(log: Log[Any]) -> str:
    """One bench as a Markdown file: the tables and what must be said of them."""
    made = bench_report([log], Options(), "md")
    return f"# {_title(log)}\n\n{made.text}\n\n{footnotes(made.notes, 'md')}\n"


def _tables(log: Log[Any]) -> Iterator[Table]:
    bench, about = Bench.of(log), _title(log)
    targets = target_rows(log, bench)
    if targets:
        yield Table(f"targets beside what was reached: {about}", targets)
    for name, ways in bench.servings.items():
        place = f"{name}, {next(iter(next(iter(ways.values())).values())).prompt_tokens} tokens"
        yield Table(f"{place}: work, bound, and dense over each", speed_rows(bench, name))
        yield Table(f"{place}: ms by stage", stage_rows(bench, name))
        yield Table(f"{place}: ms by stage at the bound", stage_rows(bench, name, bound=True))
        yield Table(f"{place}: tokens after the first", decode_rows(bench, name))
    requests = throughput_rows(log)
    if requests:
        yield Table(f"whole requests: {_request_title(log)}", requests)
    curve = curve_rows(log, bench.bytes_per_s)
    if curve:
        layers = log.run.effective.get("layers")
        yield Table(f"gate and assembly of one segment, rows of {layers} layers", curve)
        yield Table("the law that they follow", law_rows(log))


def _records(log: Log[Any]) -> Iterator[Row]:
    bench = Bench.of(log)
    for name in bench.servings:
        stages = {row.pop("condition"): row for row in stage_rows(bench, name)}
        bounds = {row.pop("condition"): row for row in stage_rows(bench, name, bound=True)}
        decoding = {row.pop("condition"): row for row in decode_rows(bench, name)}
        for row in speed_rows(bench, name):
            way = row["condition"]
            least = {f"bound_{stage}": value for stage, value in bounds[way].items() if stage != "ttft_ms"}
            after = {f"decode_{key}": value for key, value in decoding.get(way, {}).items()}
            yield {"kind": "condition", "workload": name, **row, **stages[way], **least, **after}
    for row in throughput_rows(log):
        yield {"kind": "request", "workload": THROUGHPUT, **row}
    for row in curve_rows(log, bench.bytes_per_s):
        yield {"kind": "assembly", **row}
    for row in law_rows(log):
        yield {"kind": "law", **row}
    for row in target_rows(log, bench):
        yield {"kind": "target", **row}


def _title(log: Log[Any]) -> str:
    run = log.run
    threads = run.device.get("threads")
    cores = f", {threads} of {run.host.get('cores')} cores" if run.device.get("kind") == "cpu" else ""
    return (
        f"{run.model.get('spec')}, {run.model.get('dtype')}, pool of {run.effective.get('anchors')}, "
        f"{run.device.get('model')}{cores}"
    )


def _request_title(log: Log[Any]) -> str:
    effective = log.run.effective
    agents, document, answer = (effective.get(name) for name in ("agents", "document", "answer"))
    return f"{agents} agents read a document of {document} tokens and answer with {answer}"


def _notes(log: Log[Any]) -> Iterator[str]:
    bench, effective = Bench.of(log), log.run.effective
    if log.status != "complete":
        yield f"{log.path.name}: {log.status}; only what it holds is counted"
    yield (
        f"this machine: {bench.flops_per_s / 1e9:.1f} GFLOP/s in a matrix product, {bench.bytes_per_s / 1e9:.1f} GB/s "
        "in a copy, read and written counted; the best of all rounds"
    )
    spread = [record.flops_per_s / 1e9 for record in log.benches]
    if spread and min(spread) < 0.9 * max(spread):
        yield f"the machine was not at rest: its matrix product went at {min(spread):.1f} to {max(spread):.1f} GFLOP/s"
    yield (
        f"medians of {effective.get('repeat')} rounds after {effective.get('warm_up')} warm-up rounds, not counted; "
        "speedup: dense TTFT over the row's, median of the rounds' ratios with its 95 % bootstrap interval"
    )
    yield "bound: least time for the row's FLOPs and bytes at those rates; limit: the same ratio of bounds"
    bases = {record.workload: record.base_ms for record in log.benches if is_prompt(record)}
    for name, took in bases.items():
        yield f"{name}: base rows of the shared segments took {took:.1f} ms, once; they are in no TTFT"
    if any(record.workload == THROUGHPUT for record in log.benches):
        yield THROUGHPUT_SAID
    if any(record.workload.startswith(CURVE) for record in log.benches):
        yield CURVE_SAID
    missing = left_out(log)
    if missing:
        yield f"assembly: no room in memory for {', '.join(missing)} anchors"
    versions = ", ".join(f"{name} {log.run.packages.get(name)}" for name in ("torch", "transformers"))
    yield f"{log.run.model.get('kernel')} kernel, {versions}"
