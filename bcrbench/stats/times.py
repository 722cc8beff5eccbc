"""Times of a row, beside its reference's and beside its dense twins': both speed-ups with intervals, and the tests.

An item's calls are not independent: intervals draw items, and tests take one time an item (App. H.1, Table 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from bcrbench.stats.arms import Arm
from bcrbench.stats.bootstrap import mean_of_ratios, ratio_of_means
from bcrbench.stats.cells import Cell
from bcrbench.stats.families import Family
from bcrbench.stats.latency import summary, time_tests
from bcrbench.stats.paper_tables.details import detailed_items
from bcrbench.stats.summary import Row

Pair = tuple[list[float], list[float]]  # an item's times, the reference's and the row's, call by call
SUMMARY = ("time", "median", "q1", "q3", "mean", "mean_of_ratios", "ratio_of_means")
_PAIRED = (
    "mean_of_ratios", "ratio_of_means", "items", "saved_ms", "ratios_low", "ratios_high", "means_low", "means_high",
    "t_p", "wilcoxon_p", "sign_p",
)  # fmt: skip
SAID = (
    "paired times: mean_of_ratios and ratio_of_means are the time of what the row is against over the row's own, their "
    "intervals (ratios_, means_) 95 % bootstraps over items; saved_ms, above 0 where the row is faster, and the tests "
    "(paired t, Wilcoxon, sign) take one time an item, the mean of its calls"
)


@dataclass(frozen=True)
class Times:
    """One kind of time of an arm, all of it and what pairs up."""

    name: str
    flat: list[float]
    pairs: list[Pair]
    against: str | None = None


def time_rows(arm: Arm, reference: Arm | None) -> list[Row]:
    """One row a kind of time: quartiles, mean, both speed-ups with intervals, and p of the tests; None without pairs.

    Calls and items against the reference's; where a run has dense twins, its reused calls against those, too.
    """
    return [_row(times) for times in (*_against(arm, reference), *_twins(arm))]


def _against(arm: Arm, reference: Arm | None) -> list[Times]:
    calls = [call for item in arm.items for call in item.calls]
    first = [call.ttft_ms for call in calls if not call.warm_up]
    whole = [1000 * item.wall_s for item in arm.items]
    if reference is None or reference is arm:
        return [Times("ttft_ms", first, []), Times("e2e_ms", whole, [])]
    both = list(zip(reference.items, arm.items, strict=True))
    # An item that an error cut short pairs none of its calls.
    alike = [list(zip(one.calls, two.calls)) for one, two in both if len(one.calls) == len(two.calls)]
    kept = [[(one, two) for one, two in item if not (one.warm_up or two.warm_up)] for item in alike]
    of_calls = [([one.ttft_ms for one, _ in item], [two.ttft_ms for _, two in item]) for item in kept]
    of_items = [([1000 * one.wall_s], [1000 * two.wall_s]) for one, two in both]
    return [Times("ttft_ms", first, of_calls, reference.label), Times("e2e_ms", whole, of_items, reference.label)]


def _twins(arm: Arm) -> list[Times]:
    """Times of reused calls beside those of the same ids served by a full prefill."""
    if arm.log.end is not None and not arm.log.end.twins:
        return []
    found = [
        [(call, call.twin) for call in calls if call.twin is not None and not call.warm_up]
        for calls in detailed_items(arm)
    ]
    if not any(found):
        return []
    first = [([twin.ttft_ms for _, twin in item], [call.ttft_ms for call, _ in item]) for item in found]
    whole = [([twin.e2e_ms for _, twin in item], [call.e2e_ms for call, _ in item]) for item in found]
    named = (("twin_ttft_ms", first), ("twin_e2e_ms", whole))
    return [Times(name, [time for _, own in pairs for time in own], pairs, "dense twin") for name, pairs in named]


def _row(times: Times) -> Row:
    pairs = [pair for pair in (_measured(*both) for both in times.pairs) if pair[0]]
    found = _paired([one for one, _ in pairs], [two for _, two in pairs]) if pairs else dict.fromkeys(_PAIRED)
    against = times.against if pairs else None
    return {"time": times.name, **summary(times.flat)._asdict(), **found, "against": against}


def _paired(before: list[list[float]], after: list[list[float]]) -> Row:
    ratios, means = mean_of_ratios(before, after), ratio_of_means(before, after)
    one, two = [fmean(item) for item in before], [fmean(item) for item in after]
    bounds = (ratios.low, ratios.high, means.low, means.high)
    tests = [test.p for test in time_tests(one, two)]
    values = (ratios.value, means.value, len(one), fmean(one) - fmean(two), *bounds, *tests)
    return dict(zip(_PAIRED, values, strict=True))


def _measured(one: Sequence[float], two: Sequence[float]) -> Pair:
    """Pairs of times, less those with a time of 0, which no clock measured."""
    kept = [(before, after) for before, after in zip(one, two, strict=True) if before > 0 and after > 0]
    return [before for before, _ in kept], [after for _, after in kept]


def shown(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The rows for a reader: summaries, and what is paired in a table of its own."""
    summaries = [{name: row[name] for name in SUMMARY} for row in rows]
    left_out = set(SUMMARY) - {"time"}
    paired = [{name: value for name, value in row.items() if name not in left_out} for row in rows if row["items"]]
    return summaries, [{"time": row.pop("time"), "against": row.pop("against"), **row} for row in paired]


def all_times(cells: Sequence[Cell], correction: str | None) -> tuple[dict[int, list[Row]], list[str]]:
    """Every arm's rows, by its `id`, and what must be said of them.

    With a correction, the Wilcoxon tests of the report's times are a family of their own, adjusted beside the rest.
    """
    made = {id(arm): time_rows(arm, cell.reference_of(arm)) for cell in cells for arm in cell.arms}
    rows = [row for own in made.values() for row in own]
    tested = {str(k): row["wilcoxon_p"] for k, row in enumerate(rows) if row["wilcoxon_p"] is not None}
    said = [SAID] if tested else []
    if correction is not None:
        adjusted = {}
        if tested:
            family = Family("Wilcoxon tests of this report's times", tested)
            adjusted = family.holm() if correction == "holm" else family.bonferroni()
            said.append(f"wilcoxon_p_{correction}: over all {len(tested)} Wilcoxon tests of times in this report")
        for k, row in enumerate(rows):
            row[f"wilcoxon_p_{correction}"] = adjusted.get(str(k))
    return made, said
