"""Hours that each recipe's paper profile takes on one A100 80 GB, from counts of calls and tokens; run by hand.

    python tests/bench/gpu_hours.py [RECIPE ...]

Tokens come from the paper. A repaired call of BCR-single recomputes 0.2 of its prompt's rows (Table 15), which gives
the mean prompt at two to five agents; with every agent more, a call hears half an answer more, which gives an
answer's length on MMLU and HumanEval, less the template around it (docs/mmlu.md). On GSM8K four calls generate about
1,000 tokens (App. C). CopyMachine's lengths are set.

Seconds come from a model of the GPU: a prefilled token costs 2 operations a parameter at PREFILL of the peak, a decoded
one a pass over the weights at DECODE of the bandwidth. DECODE is what the paper's own 28.33 s for those 1,000 tokens
come to (Table 9). Every call is charged a whole prefill, reused or not, a pass over its answer for the pool, and a
draft: an upper bound by a little, since decoding is nearly all of it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import bcrbench
from bcrbench.sweep.grid import Probe, expand_all
from bcrbench.sweep.plan import Plan
from bcrbench.sweep.recipe import names, read

PEAK = {2: 312e12, 4: 19.5e12}  # operations a second by bytes a parameter: half and single precision
BANDWIDTH = 1.935e12  # bytes a second
PREFILL, DECODE = 0.4, 0.3  # shares of them that are reached
PARAMETERS = {"meta-llama/Llama-3.1-8B-Instruct": (8.03e9, 2), "Qwen/Qwen2.5-Coder-7B-Instruct": (7.62e9, 4)}
RHO, DRAFT = 0.2, 2
GSM8K_ANSWER = 1000 / 4
BLOCK = 35  # template tokens around an answer that is heard
COUNTS = (2, 3, 4, 5)


@dataclass(frozen=True)
class Work:
    """Runs, calls and tokens, and the seconds that they take."""

    runs: int = 0
    calls: float = 0.0
    prefilled: float = 0.0
    decoded: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(*(one + two for one, two in zip(vars(self).values(), vars(other).values(), strict=True)))

    @property
    def told(self) -> str:
        """As a recipe's header has it."""
        hours = self.seconds / 3600
        time = f"{hours:.0f} h" if hours >= 10 else f"{hours:.1f} h" if hours >= 1 else f"{hours:.2f} h"
        tokens = f"{self.decoded / 1e6:.1f} M tokens decoded, {self.prefilled / 1e6:.1f} M prefilled"
        return f"{time} ({self.runs} run{'s' * (self.runs != 1)}, {self.calls:,.0f} calls, {tokens})"


@cache
def prompts(task: str) -> dict[int, float]:
    """Mean prompt tokens of a call, by agents."""
    path = Path(bcrbench.__file__).parent / "stats" / "paper" / "table15.json"
    rows = json.loads(path.read_text())["panels"]["15"][f"{task} single"]
    known = {n: rows[f"rows_{n}"] / RHO for n in COUNTS}
    return {1: known[2] - (known[5] - known[2]) / 3, **known}


def answer(task: str) -> float:
    """Mean tokens of an answer."""
    if task == "gsm8k":
        return GSM8K_ANSWER
    return 2 * (prompts(task)[5] - prompts(task)[2]) / 3 - BLOCK


def seconds(model: str, prefilled: float, decoded: float) -> float:
    """What tokens take on the GPU."""
    parameters, size = PARAMETERS[model.partition("@")[0]]
    prefill = 2 * parameters * prefilled / (PREFILL * PEAK[size])
    return prefill + decoded * parameters * size / (DECODE * BANDWIDTH)


def of_plan(plan: Plan) -> Work:
    """A run's work."""
    settings, task = plan.cell.settings, plan.cell.task.name
    calls = (settings.limit or 0) * len(plan.cell.agents)
    if task == "copymachine":
        own = float(settings.max_new_tokens or 0)
        prompt = 512 + plan.cell.items[0].meta["symbols"] + own * (settings.agents - 1) / 2
        served = 2  # its twin
    else:
        own, prompt, served = answer(task), prompts(task)[settings.agents], 1
    prefilled = calls * (prompt * served + own)
    decoded = calls * (own * served + DRAFT)
    return Work(1, calls, prefilled, decoded, seconds(settings.model, prefilled, decoded))


def of_probe(probe: Probe) -> Work:
    """A probe's work: every measurement at most recomputes the whole segment."""
    options = probe.options
    measured = options["prompts"] * (3 + 2 * len(options["units"]) * (1 + len(options["seeds"])))
    prefilled = float(options["segment_tokens"] * (measured + 3))
    return Work(1, measured, prefilled, 0.0, seconds(probe.settings.model, prefilled, 0.0))


def of_recipes(*wanted: str) -> Work:
    """The work of recipes and of those that they use, each run once."""
    works: dict[str, Work] = {}
    for name in wanted:
        made = expand_all(name, [], {"dry_run": True}, None, "paper")
        works |= {f"{plan.cell.settings} {plan.spec.text}": of_plan(plan) for plan in made.plans}
        works |= {f"{probe}": of_probe(probe) for probe in made.probes}
    return sum(works.values(), Work())


def main(wanted: list[str]) -> None:
    """Print a line a recipe, and one for all."""
    wanted = wanted or [name for name in names() if read(name).renders]
    for name in wanted:
        print(f"{name:<10} {of_recipes(name).told}")
    print(f"{'together':<10} {of_recipes(*wanted).told}")


if __name__ == "__main__":
    main(sys.argv[1:])
