"""What a bench is to reach, beside what it reached: a 135M model in float32 on a CPU, 8B in bfloat16 on CUDA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from bcrbench.runs.log import Log
from bcrbench.runs.schema import BenchRecord
from bcrbench.stats.bench_rows import DENSE, GENERATE, Bench, outside, per_token, ttft
from bcrbench.stats.bootstrap import Estimate
from bcrbench.stats.summary import Row

LONG, SHORT, QUESTION, ANCHORS = "symbols=4096", "short", "question", 20
_REUSE = "kvcomm:gamma=1.0"
Found = tuple[Estimate | None, float | None]  # what was reached, and what the arithmetic would allow


@dataclass(frozen=True)
class Target:
    """A figure, its bound, which side is wanted, and how it is read from a bench."""

    figure: str
    sense: Literal["<=", ">="]
    target: float
    find: Callable[[Bench], Found]

    def row(self, bench: Bench) -> Row | None:
        """The target beside what was reached; None where its conditions were not measured."""
        reached, limit = self.find(bench)
        if reached is None:
            return None
        met = reached.value <= self.target if self.sense == "<=" else reached.value >= self.target
        return {
            "figure": self.figure,
            "target": f"{self.sense} {self.target:g}",
            "reached": reached.value,
            "reached_low": reached.low,
            "reached_high": reached.high,
            "reached_limit": limit,
            "met": "yes" if met else "no",
        }


def _over(upper: str, lower: str) -> Callable[[Bench], Found]:
    return lambda bench: (bench.ratio(LONG, upper, lower), bench.bound_ratio(LONG, upper, lower))


def _bcr(layout: str, rho: float, select: str) -> str:
    """The canonical string, in which the default selector is not named."""
    chosen = [f"rho={rho}"] if rho != 0.2 else []
    chosen += [f"select={select}"] if select != "draft" else []
    return ",".join([f"bcr-{layout}:gamma=1.0", *chosen])


def _faster(name: str) -> Callable[[Bench], Found]:
    return _over(DENSE, name)


def _outside(workload: str) -> Callable[[Bench], Found]:
    def find(bench: Bench) -> Found:
        records = bench.servings.get(workload, {}).get(_REUSE, {}).values()
        least = [sum(bench.bound_ms(record.work, stage) for stage in ("gate", "assemble")) for record in records]
        return bench.ratio(workload, _REUSE, _REUSE, outside, lambda _: 1.0), median(least) if least else None

    return find


def _decode(bench: Bench) -> Found:
    return bench.ratio(LONG, GENERATE, DENSE, per_token), None


def _first_ms(bench: Bench) -> Found:
    return bench.ratio(LONG, _REUSE, _REUSE, ttft, lambda _: 1.0), bench.bound_of(LONG, _REUSE)


def _decode_share(bench: Bench) -> Found:
    """The bound's time a token over the measured: it reads all weights, and the keys and values so far."""
    return bench.ratio(LONG, DENSE, DENSE, lambda record: bench.bound_ms(record.work, "decode"), _decode_ms), 1.0


def _decode_ms(record: BenchRecord) -> float:
    return record.ms.decode


def _coin(layout: str, rho: float = 0.2) -> str:
    return _bcr(layout, rho, "coin")


ON_CPU = (
    Target("dense TTFT over transformers generate", "<=", 1.0, _over(DENSE, GENERATE)),
    Target("dense over reuse", ">=", 30.0, _faster(_REUSE)),
    Target("dense over bcr-chunk, rho 0.2, coin", ">=", 4.4, _faster(_coin("chunk"))),
    Target("dense over bcr-chunk, rho 0.2, draft", ">=", 4.0, _faster(_bcr("chunk", 0.2, "draft"))),
    Target("dense over bcr-chunk, rho 0.05, coin", ">=", 13.0, _faster(_coin("chunk", 0.05))),
    Target("bcr-grow over bcr-chunk, rho 0.2, coin", "<=", 1.1, _over(_coin("grow"), _coin("chunk"))),
    Target("bcr-single over bcr-chunk, rho 0.2, coin", "<=", 1.1, _over(_coin("single"), _coin("chunk"))),
    Target("ms outside model passes, reuse, the question alone", "<=", 10.0, _outside(QUESTION)),
    Target("ms outside model passes, reuse, question and three answers", "<=", 10.0, _outside(SHORT)),
    Target("decode tokens/s over transformers generate", ">=", 1.2, _decode),
)


ON_CUDA = (
    Target("dense TTFT over transformers generate", "<=", 1.0, _over(DENSE, GENERATE)),
    Target("ms to the first token, reuse", "<=", 10.0, _first_ms),
    Target("dense over bcr-chunk, rho 0.2, coin", ">=", 4.0, _faster(_coin("chunk"))),
    Target("dense over bcr-chunk, rho 0.05, coin", ">=", 10.0, _faster(_coin("chunk", 0.05))),
    Target("decode, share of the bound by bandwidth", ">=", 0.7, _decode_share),
)
# By model, type, kind of device, and anchors in the pool.
TARGETS: dict[tuple[object, ...], tuple[Target, ...]] = {
    ("random:smollm2-135m", "float32", "cpu", ANCHORS): ON_CPU,
    ("random:llama-3.1-8b", "bfloat16", "cuda", ANCHORS): ON_CUDA,
}


def target_rows(log: Log[Any], bench: Bench) -> list[Row]:
    """All targets that this log can speak to; none for another model, type, device or pool."""
    run = log.run
    asked = (run.model.get("spec"), run.model.get("dtype"), run.device.get("kind"), run.effective.get("anchors"))
    return [row for target in TARGETS.get(asked, ()) if (row := target.row(bench)) is not None]
