"""What must hold before two logs are compared, and what a reader must be told about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bcrbench.errors import UserError, told
from bcrbench.runs.schema import RunRecord
from bcrbench.stats.arms import Arm
from bcrbench.stats.paired import Split, smallest_significant

FEW = 20  # discordant pairs below which a test says little

_SAME = ("model.dtype", "tokenizer.hash", "tokenizer.chat_template_hash", "prompts.hash", "tools.pages")
_WORTH_SAYING = (
    "schema_version", "model.kernel", "model.sdpa_backend", "device.kind", "device.name", "code.version",
    "packages.torch", "packages.transformers", "tools",
)  # fmt: skip


def look_up(run: RunRecord, name: str) -> Any:
    """A field of the run record by its dotted name; None where it is absent."""
    part, _, key = name.partition(".")
    value = getattr(run, part)
    return value.get(key) if key and isinstance(value, Mapping) else value


def check_pair(reference: Arm, row: Arm, intersect: bool = False) -> None:
    """Raise UserError, naming the field and both values, unless the arms differ in nothing but their condition.

    With `intersect`, the sets and orders of items may differ; an id that both have must still be the same item.
    """
    for name in (*_model_fields(reference, row), *_SAME):
        _same(reference, row, name, look_up(reference.run, name), look_up(row.run, name))
    _same(reference, row, "grader", reference.grader, row.grader)
    if not intersect:
        _check_items(reference, row)
    _check_hashes(reference, row)


def cut_short_note(reference: Arm, row: Arm) -> str | None:
    """Why two arms of one item set are not paired although nothing forbids it: a run that stopped lacks items."""
    cut = [arm for arm in (reference, row) if not arm.complete]
    if not cut or reference.ids == row.ids:
        return None
    if look_up(reference.run, "items.hash") != look_up(row.run, "items.hash"):
        return None
    shared = len(set(reference.ids) & set(row.ids))
    told = " and ".join(f"{arm.label} ({arm.log.status}) has {len(arm.items)} items" for arm in cut)
    return f"{row.label} is not paired with {reference.label}: {told}; --intersect pairs the {shared} that both have"


def _model_fields(reference: Arm, row: Arm) -> tuple[str, ...]:
    hashed = all(look_up(arm.run, "model.weights_hash") for arm in (reference, row))
    fields = ("model.weights_hash",) if hashed else ("model.id", "model.revision", "model.weights_hash")
    # Logs of before it was kept have none.
    known = all(look_up(arm.run, "model.config_hash") for arm in (reference, row))
    return (*fields, "model.config_hash") if known else fields


def _same(reference: Arm, row: Arm, field: str, expected: Any, found: Any, hint: str = "") -> None:
    if expected != found:
        raise _refusal(reference, row, f"{field} is {found!r}, expected {expected!r}{hint}")


def _refusal(reference: Arm, row: Arm, told: str) -> UserError:
    pair = f"{row.label!r} cannot be paired with {reference.label!r} ({reference.path})"
    return UserError(f"{row.path}: {pair}: {told}")


def _check_items(reference: Arm, row: Arm) -> None:
    hint = "; --intersect pairs the items that both have"
    one, two = (look_up(arm.run, "items.hash") for arm in (reference, row))
    if one != two:
        counts = f"({len(row.items)} items), expected {one!r} ({len(reference.items)} items)"
        raise _refusal(reference, row, f"items.hash is {two!r} {counts}{hint}")
    ours, theirs = reference.ids, row.ids
    missing, extra = set(ours) - set(theirs), set(theirs) - set(ours)
    if missing or extra:
        unlike = ", ".join(filter(None, (_some(missing, "missing"), _some(extra, "more"))))
        told = f"the number of items is {len(theirs)} ({unlike}), expected the same {len(ours)}{hint}"
        raise _refusal(reference, row, told)
    for k, (expected, found) in enumerate(zip(ours, theirs, strict=True)):
        _same(reference, row, f"the id at place {k} of the order", expected, found, hint)


def _some(ids: set[str], word: str) -> str:
    return f"{len(ids)} {word}, {min(ids)!r} first" if ids else ""


def _check_hashes(reference: Arm, row: Arm) -> None:
    known = {item.id: item.item_hash for item in reference.items}
    for item in row.items:
        _same(reference, row, f"item_hash of {item.id!r}", known.get(item.id, item.item_hash), item.item_hash)


def common_ids(arms: Sequence[Arm]) -> set[str]:
    """The ids that every arm has. Raises UserError when there are none."""
    shared = set.intersection(*(set(arm.ids) for arm in arms))
    if not shared:
        paths = ", ".join(str(arm.path) for arm in arms)
        raise UserError(f"--intersect: no item is in all of {paths}, expected at least one")
    return shared


def intersection_notes(arms: Sequence[Arm], shared: set[str]) -> Iterator[str]:
    """What `--intersect` paired and what it left out."""
    left = ", ".join(f"{len(arm.items) - len(shared)} of {arm.label}" for arm in arms if len(arm.items) > len(shared))
    yield f"--intersect: paired on the {len(shared)} items that all {len(arms)} logs have; left out: {left or 'none'}"
    orders = {tuple(arm.only(shared).ids) for arm in arms}
    if len(orders) > 1:
        yield "--intersect: the common items ran in different orders, and a stateful run's outcomes depend on the order"
    if left and any(arm.run.stateful for arm in arms):
        yield "--intersect: a stateful run's outcomes also depend on the items that were left out"


def pair_notes(reference: Arm, row: Arm) -> Iterator[str]:
    """Differences that do not forbid a pairing but may explain it."""
    for name in _WORTH_SAYING:
        expected, found = look_up(reference.run, name), look_up(row.run, name)
        if expected != found:
            yield f"{row.label}: {name} is {found!r}, {reference.label} ran with {expected!r}"


def unlike_notes(arms: Sequence[Arm]) -> Iterator[str]:
    """The same differences among runs that stand in one table, one line a field."""
    for name in _WORTH_SAYING:
        found: dict[str, list[str]] = {}
        for arm in arms:
            found.setdefault(told(look_up(arm.run, name)), []).append(arm.label)
        if len(found) > 1:
            parts = [f"{value} in {', '.join(dict.fromkeys(labels))}" for value, labels in found.items()]
            yield f"{name} differs: {'; '.join(parts)}"


def unpaired_notes(arms: Sequence[Arm]) -> Iterator[str]:
    """Why runs that no test compares could not be compared anyway: accuracies in one table invite it."""
    for arm in arms[1:]:
        try:
            check_pair(arms[0], arm, not (arms[0].complete and arm.complete))
        except UserError as error:
            yield f"not comparable: {error}"


def few_pairs_note(reference: Arm, row: Arm, split: Split) -> str | None:
    """A word on tests with too few discordant pairs to say much."""
    n = split.discordant
    if n >= FEW:
        return None
    if n == 0:
        return f"{row.label} against {reference.label}: no discordant pair, so nothing to test"
    pairs = f"only {n} discordant pair{'s' * (n != 1)}"
    edge = smallest_significant(n)
    least = f"the smallest significant split of {n} is {edge.b}/{edge.c}" if edge else f"no split of {n} is significant"
    return f"{row.label} against {reference.label}: {pairs}, fewer than {FEW}; {least}"


def identical_notes(arms: Sequence[Arm]) -> Iterator[str]:
    """Conditions that gave the same outcome on every item, one note a group: did the settings arrive?

    Texts that differ show that they did; equal outcomes are then only said.
    """
    for alike in _alike(arms, lambda arm: [item.text for item in arm.items]):
        yield (
            f"{_listed([arm.label for arm in alike])} gave identical outcomes and texts on all "
            f"{len(alike[0].items)} items: {_unreused(alike)}did the setting arrive? effective: "
            f"{_listed([_told(arm) for arm in alike])}"
        )
    for alike in _alike([arm for arm in arms if not arm.ungraded], lambda _: []):
        if len({tuple(item.text for item in arm.items) for arm in alike}) > 1:
            yield (
                f"{_listed([arm.label for arm in alike])} gave identical outcomes on all {len(alike[0].items)} items, "
                "with texts that differ"
            )


def _alike(arms: Sequence[Arm], texts: Callable[[Arm], list[str]]) -> Iterator[list[Arm]]:
    """Groups of arms with the same items, outcomes and texts."""
    groups: list[tuple[tuple[list[str], list[str], list[str]], list[Arm]]] = []
    for arm in arms:
        result = (arm.ids, arm.outcomes, texts(arm))
        same = next((group for known, group in groups if known == result), None)
        if same is not None:
            same.append(arm)
        elif arm.items:
            groups.append((result, [arm]))
    return (group for _, group in groups if len(group) > 1)


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + f" and {parts[-1]}"


def _unreused(arms: Sequence[Arm]) -> str:
    """The commonest reason: in a short run the pool is still filling, and serves nothing."""
    served = any(call.served == "reuse" for arm in arms for item in arm.items for call in item.calls)
    return "" if served else "no call of theirs was reused; "


def _told(arm: Arm) -> str:
    return " ".join(f"{key}={value}" for key, value in arm.run.effective.items()) or "nothing"


def state_notes(arm: Arm) -> Iterator[str]:
    """What must be said of one log: that it is partial, torn, or holds errors."""
    if arm.log.status != "complete":
        why = f": {arm.log.end.why}" if arm.log.end and arm.log.end.why else ""
        done = f"{len(arm.log.items)} of {look_up(arm.run, 'items.count')} items"
        told = "has no end record (killed, or still running)" if arm.log.end is None else f"was {_past(arm)}{why}"
        yield f"{arm.path}: the run {told} after {done}; its numbers are not final"
    if arm.log.torn:
        yield f"{arm.path}: a torn last line was left out"
    told_ungraded = ungraded_note(arm)
    if told_ungraded:
        yield told_ungraded
    if arm.errors:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(arm.errors.items()))
        yield f"{arm.label}: {sum(arm.errors.values())} items ended in errors and count as not correct ({kinds})"


def ungraded_note(arm: Arm) -> str | None:
    """That a log's texts still wait for their grades, and which command gives them."""
    name = look_up(arm.run, "grader.name")
    if not arm.ungraded or name == "none":  # a task of which nothing is graded
        return None
    return (
        f"{arm.label}: {arm.ungraded} of {len(arm.items)} items are ungraded, so it has no accuracy: "
        f"`bcrbench grade {arm.path} --grader {name}` grades them"
    )


def _past(arm: Arm) -> str:
    return "stopped by an error" if arm.log.status == "failed" else arm.log.status


def part_of_task(arm: Arm) -> tuple[Any, int, int] | None:
    """The limit (None for a choice of ids), the count and the task's total, when a run took a part of its items."""
    limit, count, total = (look_up(arm.run, f"items.{key}") for key in ("limit", "count", "total"))
    if count == total or (limit is None and total is None):  # a limit above the total takes all
        return None
    return limit, count, total


def limit_notes(arms: Iterable[Arm]) -> Iterator[str]:
    """Which runs took a part of their task's items; said once for all runs that took the same."""
    taken: dict[tuple[Any, int, int], list[str]] = {}
    for arm in arms:
        part = part_of_task(arm)
        if part is not None:
            taken.setdefault(part, []).append(arm.condition)
    for (limit, count, total), conditions in taken.items():
        how = f"--limit {limit}" if limit is not None else "a choice of ids"
        yield f"{', '.join(dict.fromkeys(conditions))}: {count} of the task's {total} items ({how}), not the whole set"
