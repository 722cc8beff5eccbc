"""Memory of a run: what its end record says, and that a long run takes no more than a short one."""

from __future__ import annotations

import gc
import re
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from planned import plans_of

from bcrbench.runs.log import read_log
from bcrbench.runs.memory import Meter
from bcrbench.runs.schema import ItemRecord, Memory
from bcrbench.sweep.execute import Models, execute

MB = 2**20
ITEMS = 140
AN_ITEM = 500  # bytes; an item's record, kept, would take over 3,000
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def ended(log: Path) -> Memory:
    end = read_log(log).end
    assert end is not None and end.memory is not None
    return end.memory


def resident() -> int:
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])


def ran(out: Path, condition: str, progress: Any = None, **changes: Any) -> Path:
    (plan,) = plans_of(out, condition, **changes)
    return execute(plan, Models(), lambda line: None, *([] if progress is None else [progress]))


def test_the_end_record_tells_weights_and_pool(tmp_path: Path) -> None:
    dense = ended(ran(tmp_path, "dense"))
    pooled = ended(ran(tmp_path, "kvcomm:gamma=1.0", limit=4))
    assert 0 < dense.weights == pooled.weights < dense.peak
    assert (dense.pool, dense.pool_peak, dense.evicted_for_bytes) == (None, None, None)
    assert pooled.pool is not None and pooled.pool_peak is not None
    assert 0 < pooled.pool <= pooled.pool_peak < pooled.peak
    assert pooled.evicted_for_bytes == 0 and pooled.device_peak is None


def test_a_pool_stays_within_its_budget(tmp_path: Path) -> None:
    free = ended(ran(tmp_path, "kvcomm:gamma=1.0", limit=6))
    assert free.pool_peak is not None
    bound = ended(ran(tmp_path, f"kvcomm:gamma=1.0,pool_gb={free.pool_peak / 2e9}", limit=6))
    assert bound.pool_peak is not None and bound.evicted_for_bytes
    assert bound.pool_peak <= free.pool_peak / 2


@linux
def test_the_peak_is_the_runs_own_where_the_mark_can_be_set_back() -> None:
    taken = bytearray(200 * MB)
    high = resident()
    del taken
    meter = Meter()
    peak = meter.read(0)
    if peak.peak_since == "process":
        assert peak.peak >= high
        return
    assert peak.peak < high - 100 * MB
    more = bytearray(b"x" * (60 * MB))
    assert meter.read(0).peak >= peak.peak + 50 * MB
    del more


class Watch:
    """Notes, after every item, what Python holds and what is resident."""

    def __init__(self, *_: Any) -> None:
        self.held: list[int] = []
        self.resident: list[int] = []

    def item(self, record: ItemRecord, replayed: bool) -> None:
        if len(self.held) % 20 == 0:
            gc.collect()
        self.held.append(tracemalloc.get_traced_memory()[0])
        self.resident.append(resident())


@linux
def test_a_run_does_not_grow_with_its_items(tmp_path: Path) -> None:
    """Once the pool is full and libraries are warm, later items leave nothing behind: calls of every kind."""
    watch = Watch()
    tracemalloc.start()
    try:
        name = "bcr-single:gamma=1.0,k=1,capacity=3,window=2"
        ran(tmp_path, name, lambda *_: watch, limit=ITEMS, agents=1, max_new_tokens=2)
    finally:
        tracemalloc.stop()
    assert len(watch.held) == ITEMS
    early, late = min(watch.held[40:60]), min(watch.held[ITEMS - 20 :])
    assert late - early < AN_ITEM * (ITEMS - 60), f"{(late - early) / (ITEMS - 60):.0f} bytes an item stay"
    assert min(watch.resident[ITEMS - 20 :]) - max(watch.resident[40:60]) < 12 * MB
