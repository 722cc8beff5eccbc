"""Checks of repair: all rows give Dense, no rows give plain reuse, a draft leaves no trace, and repairs happen.

Sources: App. B "Correctness"; Alg. 2, lines 1 and 3; App. H.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from statistics import median_high
from typing import Callable

import torch
from torch import Tensor

from bcrbench.conditions import parse
from bcrbench.engine.model import Runtime
from bcrbench.repair.budget import chunk_budget
from bcrbench.repair.view import RepairView, Start
from bcrbench.reuse.policies.repaired import BcrChunk
from bcrbench.reuse.serve import Server
from bcrbench.runs.engaged import engagement
from bcrbench.runs.schema import Call
from bcrbench.verify.alike import told, unlike
from bcrbench.verify.bench import TOKENS, Bench, Trial
from bcrbench.verify.exact import first_difference, rows_apart, tolerance, top_gap
from bcrbench.verify.finding import Finding, count
from bcrbench.verify.reuse import NOTHING

LAYOUTS = ("chunk", "grow", "single")


def no_repair(bench: Bench) -> Finding:
    """With a budget of 0 the repair's path, draft included, is plain reuse to the last bit."""
    plain, idle = bench.trial("kvcomm:gamma=1.0"), bench.trial("bcr-single:gamma=1.0,rho=0.0")
    differ = unlike(plain, idle)
    chosen = sum(call.rows.selected for _, call in idle.calls())
    reused = idle.reused()
    return Finding(
        name="no-repair",
        passed=not differ and not chosen and reused > 0,
        number=len(differ),
        unit=f"of {len(plain.items)} items differ",
        expected="0",
        detail=(
            f"rho=0 against plain reuse, {reused} calls reused, {count(chosen, 'row')} repaired: {told(differ)}"
            if reused
            else NOTHING
        ),
        source="App. B",
    )


@dataclass
class _FullRepair:
    """What full repairs of one layout left, over a run's calls."""

    layout: str
    apart: float = 0.0
    alike: int = 0
    ties: int = 0
    parted: int = 0
    partial: int = 0
    first: str = ""

    @property
    def compared(self) -> int:
        """Reused calls whose prompt was Dense's too."""
        return self.alike + self.ties + self.parted

    def watch(self, view: RepairView, server: Server, start: Callable[[], Start]) -> Start:
        """Compare the cache with an exact one right after the repair."""
        made = start()
        self.apart = max(self.apart, rows_apart(view.cache, view.dense, range(view.rows)))
        return made


def full_repair(bench: Bench) -> Finding:
    """Repairing every row of an assembled cache gives Dense's rows up to rounding, and the same 24 greedy tokens.

    A call after one that differed has another prompt and is left out; a swap of two tokens that are level up to
    rounding is counted as a tie.
    """
    exact = bench.trial("dense:tokens=merged")
    found = [_repaired_in_full(bench, layout, exact) for layout in LAYOUTS]
    apart, limit = max(one.apart for one in found), tolerance(bench.runtime)
    compared, alike = sum(one.compared for one in found), sum(one.alike for one in found)
    ties, partial = sum(one.ties for one in found), sum(one.partial for one in found)
    detail = (
        f"{TOKENS} greedy tokens alike in {alike} of {compared} reused calls"
        f" ({', '.join(f'{one.layout} {one.alike} of {one.compared}' for one in found)}), {count(ties, 'tie')}"
    )
    first = next((one.first for one in found if one.first), "")
    return Finding(
        name="full-repair",
        passed=alike + ties == compared and not partial and apart <= limit and all(one.compared for one in found),
        number=apart,
        unit="largest relative distance of a tensor's rows from Dense's",
        expected=f"at most {limit:g}, and the tokens alike",
        detail=(detail + (f"; {first}" if first else "")) if compared else NOTHING,
        source="App. B, correctness",
        differs=ties > 0,
    )


def _repaired_in_full(bench: Bench, layout: str, exact: Trial) -> _FullRepair:
    found = _FullRepair(layout)
    trial = bench.trial(f"bcr-{layout}:gamma=1.0,rho=1.0", found.watch)
    for index, (item, twin) in enumerate(zip(trial.items, exact.items, strict=True)):
        for call, dense in zip(item.calls, twin.calls, strict=True):
            if call.served != "reuse" or call.prompt_hash != dense.prompt_hash:
                continue
            found.partial += call.rows.selected < call.rows.cached
            ids = bench.prompt(call.agent, bench.cell.items[index], twin)[0].ids
            _compare(found, bench.runtime, ids, call, dense)
            if found.parted and not found.first:
                found.first = f"bcr-{layout} differs on item {item.id} agent {call.agent}"
    return found


def _compare(found: _FullRepair, runtime: Runtime, ids: list[int], call: Call, dense: Call) -> None:
    at = first_difference(call.ids[:TOKENS], dense.ids[:TOKENS])
    if at is None:
        found.alike += 1
    elif top_gap(runtime, [*ids, *dense.ids[:at]])[1]:
        found.ties += 1
    else:
        found.parted += 1


@dataclass(frozen=True)
class _State:
    """Everything that a draft could leave a trace in: cache, length, counters, pool, random streams."""

    keys: Tensor
    values: Tensor
    length: int
    counters: list[int]
    pool: str
    streams: list[bytes]

    @classmethod
    def of(cls, view: RepairView, server: Server) -> _State:
        return cls(
            view.cache.keys.clone(),
            view.cache.values.clone(),
            view.cache.length,
            list(server.streams),
            server.pool.hash() if server.pool is not None else "",
            _random_streams(),
        )

    def changed(self, now: _State) -> int:
        """Bytes of the cache that changed, plus one for each of the other things that did."""
        rooms = self.keys.shape[3]  # a cache may have grown; what it held must be what it holds
        pairs = ((self.keys, now.keys[:, :, :, :rooms]), (self.values, now.values[:, :, :, :rooms]))
        moved = sum(int((_bytes(a) != _bytes(b)).sum()) for a, b in pairs)
        names = ("length", "counters", "pool", "streams")
        return moved + sum(getattr(self, name) != getattr(now, name) for name in names)


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(torch.uint8)


def _random_streams() -> list[bytes]:
    states = [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [])]
    return [repr(random.getstate()).encode(), *(state.cpu().numpy().tobytes() for state in states)]


def draft(bench: Bench) -> Finding:
    """A draft that scores rows leaves cache, length, counters and random streams as they were, byte for byte."""
    changed: list[int] = []

    def watch(view: RepairView, server: Server, start: Callable[[], Start]) -> Start:
        before = _State.of(view, server)
        _ = view.draft
        changed.append(before.changed(_State.of(view, server)))
        return start()

    bench.trial("bcr-single:gamma=1.0", watch)
    return Finding(
        name="draft",
        passed=bool(changed) and not any(changed),
        number=sum(changed),
        unit="bytes and counters changed",
        expected="0",
        detail=f"{count(len(changed), 'draft')} on assembled caches, each looked at before and after"
        if changed
        else NOTHING,
        source="Alg. 2, lines 1 and 3",
    )


def engaged(bench: Bench) -> Finding:
    """Each layout repairs some call of this task; a run in which none was repaired would fail.

    Where every prompt is too short for the paper's chunks, chunks are halved until they fit the middle one.
    """
    size = _chunk_size(bench)
    conditions = [
        f"bcr-chunk:gamma=1.0,B={size}",
        "bcr-grow:gamma=1.0",
        "bcr-single:gamma=1.0",
    ]
    seen = {name: engagement(bench.trial(name).items) for name in conditions}
    reused = sum(one.reused for one in seen.values())
    standard = BcrChunk().B
    note = "" if size == standard else f"; B={standard} would skip every call here, try B={size}"
    return Finding(
        name="engaged",
        passed=all(one.repaired for one in seen.values()),
        number=sum(one.repaired for one in seen.values()),
        unit=f"of {reused} reused calls repaired",
        expected="some in each layout",
        detail="; ".join(f"{parse(name).text}: {one.told}" for name, one in seen.items()) + note,
        source="App. B, Alg. 1; App. H",
    )


def _chunk_size(bench: Bench) -> int:
    """The paper's B where it fits any reused call, else halved until it fits the one of middle length."""
    reused = [call.rows.cached for _, call in bench.trial("kvcomm:gamma=1.0").calls() if call.served == "reuse"]
    size, rho = BcrChunk().B, BcrChunk().rho
    if not reused or not chunk_budget(max(reused), size, rho).skipped:
        return size
    while size > 1 and chunk_budget(median_high(reused), size, rho).skipped:
        size //= 2
    return size
