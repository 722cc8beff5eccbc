"""A bench's servings as rows: times by stage, what the arithmetic allows, and ratios to dense (Table 10, App. C).

Times are medians over rounds. A ratio is the median of the rounds' ratios, two servings of one round each, with a
percentile bootstrap over rounds. Bounds use the best rates that the log holds: the machine could do no better.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from bcrbench.runs.log import Log
from bcrbench.runs.schema import BenchRecord, Work
from bcrbench.stats.bootstrap import Estimate, median_of_ratios
from bcrbench.stats.summary import Row

DENSE, GENERATE = "dense", "generate"
THROUGHPUT, CURVE = "throughput", "assembly="  # workloads that are no prompt: whole requests; rows x anchors behind "="
STAGES = ("gate", "assemble", "draft", "select", "repair", "first_token")
PASSES = ("base", "draft", "repair", "first_token")  # stages in which the model runs
Take = Callable[[BenchRecord], float]


def is_bench(log: Log[Any]) -> bool:
    """Whether a log is a bench's."""
    return log.run.effective.get("bench") is True


def is_prompt(record: BenchRecord) -> bool:
    """Whether a line is of one prompt's serving, and not of whole requests or of assembly alone."""
    return record.workload != THROUGHPUT and not record.workload.startswith(CURVE)


def ttft(record: BenchRecord) -> float:
    """Milliseconds to the first token."""
    return record.ttft_ms


def outside(record: BenchRecord) -> float:
    """Milliseconds to the first token that no pass of the model took."""
    return record.ttft_ms - sum(getattr(record.ms, stage) for stage in PASSES)


def per_token(record: BenchRecord) -> float:
    """Milliseconds a token after the first one."""
    return record.ms.decode / record.new_tokens


def label(condition: str) -> str:
    """What a table calls a condition: layout, share and selector, the defaults too."""
    name, _, tail = condition.partition(":")
    if not name.startswith("bcr-"):
        return {DENSE: DENSE, GENERATE: "transformers generate"}.get(condition, "reuse")
    own = dict(part.partition("=")[::2] for part in tail.split(","))
    return f"{name} {own.get('rho', '0.2')} {own.get('select', 'draft')}"


@dataclass(frozen=True)
class Bench:
    """A log's measured servings by workload, condition and round, and the machine's best rates."""

    servings: Mapping[str, Mapping[str, Mapping[int, BenchRecord]]]
    flops_per_s: float
    bytes_per_s: float

    @classmethod
    def of(cls, log: Log[Any]) -> Bench:
        """The servings of prompts that a log holds, less its warm-ups."""
        found: dict[str, dict[str, dict[int, BenchRecord]]] = defaultdict(lambda: defaultdict(dict))
        prompts = [record for record in log.benches if is_prompt(record)]
        for record in prompts:
            if not record.warm_up:
                found[record.workload][record.condition][record.round] = record
        order = [record.condition for record in prompts if not record.round]
        sorted_ = {name: _ordered(ways, order) for name, ways in found.items()}
        rates = [(record.flops_per_s, record.bytes_per_s) for record in log.benches]
        return cls(sorted_, max((r[0] for r in rates), default=0.0), max((r[1] for r in rates), default=0.0))

    def bound_ms(self, work: Iterable[Work], stage: str | None = None) -> float:
        """The least milliseconds for all work up to the first token, or for one stage's."""
        wanted = [part for part in work if (part.stage == stage if stage else part.stage != "decode")]
        return 1e3 * sum(max(part.flops / self.flops_per_s, part.bytes / self.bytes_per_s) for part in wanted)

    def ratio(
        self, workload: str, upper: str, lower: str, take: Take = ttft, under: Take | None = None
    ) -> Estimate | None:
        """One condition over another, round by round; None unless both were measured in one round."""
        ways = self.servings.get(workload, {})
        above, below = ways.get(upper, {}), ways.get(lower, {})
        rounds = [(take(above[k]), (under or take)(below[k])) for k in sorted(above) if k in below]
        rounds = [(one, two) for one, two in rounds if two > 0]
        return median_of_ratios([pair[0] for pair in rounds], [pair[1] for pair in rounds]) if rounds else None

    def bound_ratio(self, workload: str, upper: str, lower: str) -> float | None:
        """The same ratio of bounds."""
        above, below = (self.bound_of(workload, name) for name in (upper, lower))
        return above / below if above and below else None

    def bound_of(self, workload: str, name: str) -> float | None:
        """The median of a condition's least milliseconds to the first token."""
        records = self.servings.get(workload, {}).get(name, {}).values()
        return median(self.bound_ms(record.work) for record in records) if records else None


def _ordered(ways: Mapping[str, Any], order: list[str]) -> dict[str, Any]:
    """Conditions as the first round had them, whichever came first in a later one."""
    return {name: ways[name] for name in dict.fromkeys([*order, *ways]) if name in ways}


def stage_rows(bench: Bench, workload: str, bound: bool = False) -> list[Row]:
    """Median milliseconds by stage, a row a condition; or the least that each could take."""
    rows = []
    for name, rounds in bench.servings[workload].items():
        records = list(rounds.values())
        if bound:
            times = {stage: median(bench.bound_ms(r.work, stage) for r in records) for stage in STAGES}
            rows.append({"condition": label(name), "ttft_ms": median(bench.bound_ms(r.work) for r in records), **times})
            continue
        times = {stage: median(getattr(r.ms, stage) for r in records) for stage in STAGES}
        rest = median(
            outside(r) - sum(getattr(r.ms, stage) for stage in STAGES if stage not in PASSES) for r in records
        )
        rows.append({"condition": label(name), "ttft_ms": median(map(ttft, records)), **times, "rest": rest})
    return rows


def speed_rows(bench: Bench, workload: str) -> list[Row]:
    """A row a condition: its work, its bound and the share of it that was reached, dense over it, and the limit."""
    rows = []
    for name, rounds in bench.servings[workload].items():
        records = list(rounds.values())
        works = [[part for part in record.work if part.stage != "decode"] for record in records]
        ratio = bench.ratio(workload, DENSE, name)
        rows.append({
            "condition": label(name),
            "rows": median(record.rows for record in records),
            "ttft_ms": median(map(ttft, records)),
            "gflop": median(sum(part.flops for part in work) for work in works) / 1e9,
            "gbyte": median(sum(part.bytes for part in work) for work in works) / 1e9,
            "bound_ms": median(map(bench.bound_ms, works)),
            "bound_share": median(bench.bound_ms(r.work) / r.ttft_ms for r in records),
            "speedup": ratio.value if ratio else None,
            "speedup_low": ratio.low if ratio else None,
            "speedup_high": ratio.high if ratio else None,
            "limit": bench.bound_ratio(workload, DENSE, name),
        })  # fmt: skip
    return rows


def decode_rows(bench: Bench, workload: str) -> list[Row]:
    """Tokens a second after the first one, for what decoded any."""
    rows = []
    for name, rounds in bench.servings[workload].items():
        records = [record for record in rounds.values() if record.new_tokens]
        if records:
            least = [bench.bound_ms(r.work, "decode") / r.new_tokens for r in records]
            rows.append({
                "condition": label(name),
                "prompt_tokens": records[0].prompt_tokens,
                "new_tokens": records[0].new_tokens,
                "tokens_per_s": median(1e3 / per_token(r) for r in records),
                "bound_per_s": 1e3 / median(least),
                "bound_share": median(one / per_token(r) for one, r in zip(least, records, strict=True)),
            })  # fmt: skip
    return rows
