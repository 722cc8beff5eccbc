"""The order of a sweep's runs: one model after the other; Dense first, then what others are matched to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bcrbench.conditions import parse
from bcrbench.runs.matching import condition_in
from bcrbench.sweep.plan import Plan

_FIRST = {"dense": 0, "kvcomm": 1}
_MATCHED, _REST, _MATCHING = 1, 2, 3


def in_order(plans: Sequence[Plan]) -> list[Plan]:
    """The plans in the order in which they are run; equals keep theirs, over all cells."""
    models: dict[tuple[Any, ...], int] = {}
    for plan in plans:
        models.setdefault(model_key(plan), len(models))
    asked = {(id(plan.cell), text) for plan in plans for text in _matched_to(plan)}
    return sorted(plans, key=lambda plan: (models[model_key(plan)], _rank(plan, asked)))


def model_key(plan: Plan) -> tuple[Any, ...]:
    """What two runs must share to share a loaded model."""
    settings = plan.cell.settings
    return (settings.model, settings.device, settings.dtype, settings.kernel, settings.threads)


def _rank(plan: Plan, asked: set[tuple[int, str]]) -> int:
    first = _FIRST.get(plan.spec.text.partition(":")[0])
    if first is not None:
        return first
    if _matched_to(plan):
        return _MATCHING
    return _MATCHED if (id(plan.cell), plan.spec.text) in asked else _REST


def _matched_to(plan: Plan) -> list[str]:
    """The conditions whose logs a run reads first."""
    text = condition_in(str(getattr(plan.spec.policy, "match", "")))
    return [parse(text).text] if text is not None else []
