"""Two conditions of a claim on the same items: one split, or one net an item where the items ran several times.

Several agent counts or seeds of one item set are never added up as if they were more items (App. H.1): the exact
sign-flip test of per-item nets decides, and the interval is Student's over items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from bcrbench.errors import UserError
from bcrbench.stats import guards
from bcrbench.stats.arms import Arm
from bcrbench.stats.claims.kind import Lack, Place
from bcrbench.stats.claims.places import Spot
from bcrbench.stats.clustered import item_level, item_nets
from bcrbench.stats.intervals import LEVEL, Interval, newcombe, wilson
from bcrbench.stats.paired import split
from bcrbench.stats.paper_tables.build import condensed
from bcrbench.stats.paper_tables.forms import FORMS

_ENDED = {"failed": "failed", "cancelled": "was cancelled", "killed": "was killed or still runs"}


@dataclass(frozen=True)
class Pair:
    """A condition's run and the reference's in one cell."""

    where: str
    first: Arm
    second: Arm

    @property
    def gain(self) -> float:
        """Accuracy of the first less that of the second."""
        return (sum(self.first.solved) - sum(self.second.solved)) / len(self.first.items)


@dataclass(frozen=True)
class Pairs:
    """Pairs by their items: each list ran one item set, once or several times; and what could not be paired."""

    groups: list[list[Pair]]
    lacks: list[Lack]


def pairs(places: Sequence[Spot], place: Place, first: str, second: str) -> Pairs:
    """Every pair of runs of two conditions at a claim's places."""
    groups: dict[tuple[str, ...], list[Pair]] = {}
    lacks: list[Lack] = []
    for spot in places:
        arms = {condition: spot.arms(condition, place) for condition in (first, second)}
        lacks += [Lack(f"no log of {condition}", spot.told) for condition, found in arms.items() if not found]
        for one in arms[first]:
            for two in arms[second]:
                reason = _apart(one, two)
                if reason is not None:
                    lacks += [Lack(reason, spot.told)] if reason else []
                    continue
                groups.setdefault(item_set(one), []).append(Pair(spot.told, one, two))
    return Pairs(list(groups.values()), lacks)


def _apart(one: Arm, two: Arm) -> str | None:
    """Why two runs make no pair: a reason, or an empty one where nobody expects them to; None where they do."""
    alike = all(a is None or b is None or a == b for a, b in ((one.kernel, two.kernel), (one.seed, two.seed)))
    if one is two or not alike:
        return ""
    for arm in (one, two):
        if not arm.items:
            return f"{arm.label} has no items"
        if arm.ungraded:
            return guards.ungraded_note(arm) or f"{arm.label} is not graded"
    cut = guards.cut_short_note(two, one)
    if cut is not None:
        return cut
    try:
        guards.check_pair(two, one)
    except UserError as error:
        return str(error)
    return None


@dataclass(frozen=True)
class Gain:
    """How far the first condition is above the second over one item set, with its interval at a level."""

    pairs: list[Pair]
    mean: float  # of the cells' differences, a fraction
    interval: Interval
    level: float
    p: float | None  # sign flip; None for one pair, whose interval decides

    @property
    def side(self) -> int:
        """1 where the first is above, -1 where it is below, 0 where neither is resolved."""
        if self.p is not None:
            return (self.mean > 0) - (self.mean < 0) if self.p < 1 - self.level else 0
        return (self.interval.low > 0) - (self.interval.high < 0)

    @property
    def told(self) -> str:
        """One phrase: the difference in points, its interval, the split or the test, the items and where they ran."""
        low, high = self.interval
        parts = [f"{points(self.mean)} points [{points(low)}, {points(high)}]{self._level}"]
        if self.p is None:
            b, c = split(self.pairs[0].second.solved, self.pairs[0].first.solved)
            parts.append(f"b/c {b}/{c}")
        else:
            above = sum(pair.gain > 0 for pair in self.pairs)
            below = sum(pair.gain < 0 for pair in self.pairs)
            parts.append(f"sign flip p {FORMS['p'].show(self.p)}")
            parts.append(f"above in {above} and below in {below} of {len(self.pairs)} pairings")
        return ", ".join([*parts, size(self.arms), *marks(self.arms), _where(self.pairs)])

    @property
    def _level(self) -> str:
        return "" if self.level == LEVEL else f" at {100 * self.level:.1f} %"

    @property
    def arms(self) -> list[Arm]:
        """Every run behind it."""
        return [arm for pair in self.pairs for arm in (pair.first, pair.second)]


def gain(group: Sequence[Pair], level: float = LEVEL) -> Gain:
    """What a group of pairs on the same items says."""
    if len(group) == 1:
        first, second = group[0].first.solved, group[0].second.solved
        b, c = split(second, first)
        both = sum(first) - c
        found = newcombe(both, c, b, len(first) - both - b - c, level)
        return Gain(list(group), group[0].gain, found, level, None)
    nets = item_nets((_by_id(pair.first), _by_id(pair.second)) for pair in group)
    mean, (low, high) = mean_of([net / len(group) for net in nets], level)
    return Gain(list(group), mean, Interval(max(low, -1.0), min(high, 1.0)), level, item_level(nets).p)


def item_set(arm: Arm) -> tuple[str, ...]:
    """What runs of the same items and model share, in whatever order the items ran."""
    return (str(arm.run.cell.get("model")), *sorted(arm.ids))


def items_of(arms: Sequence[Arm]) -> frozenset[str]:
    """The items of some runs, each once."""
    return frozenset(f"{arm.run.task} {name}" for arm in arms for name in arm.ids)


def _by_id(arm: Arm) -> list[bool]:
    """Whether each item was solved, in the ids' order, which all cells have in common."""
    return [solved for _, solved in sorted(zip(arm.ids, arm.solved, strict=True))]


def mean_of(values: Sequence[float], level: float = LEVEL) -> tuple[float, Interval]:
    """Mean of one value an item and Student's interval of it.

    Where all are equal it reaches as far as items that were not drawn could move it: Wilson's bound for 0 of n.
    """
    n, mean = len(values), fmean(values)
    if n < 2:
        return mean, Interval(-1.0, 1.0)
    from scipy.stats import t

    spread = stdev(values)
    reach = float(t.ppf((1 + level) / 2, n - 1)) * spread / sqrt(n) if spread else wilson(0, n, level).high
    return mean, Interval(mean - reach, mean + reach)


def points(value: float) -> str:
    """A fraction in points, signed."""
    text = f"{100 * value:+.1f}"
    return "0.0" if float(text) == 0 else text


def size(arms: Sequence[Arm]) -> str:
    """The items of a comparison; of how many, where the runs took a part of their task."""
    n, part = len(arms[0].items), guards.part_of_task(arms[0])
    return f"n {n} of {part[2]}" if part else f"n {n}"


def marks(arms: Sequence[Arm]) -> list[str]:
    """Runs that did not come to their end."""
    return list(dict.fromkeys(f"{arm.label} {_ENDED[arm.log.status]}" for arm in arms if not arm.complete))


def _where(group: Sequence[Pair]) -> str:
    return condensed(dict.fromkeys(pair.where for pair in group))
