"""Small planned runs, and logs without what may differ between two runs of one plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bcrbench.settings import resolve
from bcrbench.sweep.plan import Plan, plan

TINY = {"model": "random:tiny", "limit": 2, "max_new_tokens": 4, "agents": 2}
GAMMAS = (0.3, 0.7)
POOL = [
    "dense",
    "placebo",
    "protect-root:gamma=0.3",
    "cacheblend:match=reuse:protect-root:gamma=0.3",
    *(f"kvcomm:gamma={g}" for g in GAMMAS),
    *(f"random:match=0.2,gamma={g}" for g in GAMMAS),
]
TIMES = {"ms", "ttft_ms", "e2e_ms", "wall_s", "started", "seconds", "memory"}


def plans_of(out: Path | str, *conditions: str, **changes: Any) -> list[Plan]:
    """One plan a condition, in the order given, all in one cell."""
    settings, given_ = resolve([("test", {**TINY, "out": str(out), **changes})])
    planned = {made.given["condition"]: made for made in plan(settings, list(conditions), given_)}
    by_text = {made.spec.text: made for made in planned.values()}
    return [by_text[spec.spec.text] for name in conditions for spec in plan(settings, [name], given_)]


def timeless(value: Any) -> Any:
    """A record without its times, at any depth."""
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if key not in TIMES}
    return [timeless(part) for part in value] if isinstance(value, list) else value


def records(path: Path) -> list[Any]:
    """A log's records without what differs on purpose: `out`, and the commit, which may move."""
    found = [timeless(json.loads(line)) for line in path.read_text().splitlines()]
    for part in ("given", "resolved"):
        del found[0][part]["out"]
    del found[0]["code"]
    return found


EVERY = dict(zip(POOL, plans_of("o", *POOL), strict=True))
