"""The meter of a run's memory where the mark cannot be set back, on CUDA, and of tied weights; the tally of items."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from arbitrary import lines, plain_item, plain_run

from bcrbench.runs import memory
from bcrbench.runs.log import read_log
from bcrbench.runs.memory import Meter, weight_bytes
from bcrbench.runs.schema import EndRecord, Memory
from bcrbench.runs.tally import Tally


@pytest.mark.parametrize("missing", ["_CLEAR", "_STATUS"])
def test_without_a_mark_of_its_own_the_peak_is_the_processs(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_CLEAR", tmp_path / "clear")
    monkeypatch.setattr(memory, missing, tmp_path / "none" / "file")
    found = Meter().read(5)
    assert (found.peak_since, found.weights, found.pool, found.device_peak) == ("process", 5, None, None)
    assert 10 * 2**20 < found.peak < 2**40  # bytes, whatever the system's unit


def test_a_status_without_the_mark_is_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_CLEAR", tmp_path / "clear")
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "status")
    (tmp_path / "status").write_text("Name:\tx\n")
    assert Meter().read(0).peak_since == "process"
    (tmp_path / "status").write_text("Name:\tx\nVmHWM:\t    7 kB\n")
    assert Meter().read(0).peak == 7 * 1024


def test_on_cuda_the_allocators_marks_are_set_back_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", asked.append)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 11)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 22)
    found = Meter("cuda:1").read(0)
    assert asked == ["cuda:1"]
    assert (found.device_peak, found.device_reserved) == (11, 22)


def test_tied_weights_count_once() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 6, bias=False), torch.nn.Linear(4, 6, bias=False))
    assert weight_bytes(model) == 2 * 24 * 4
    model[1].weight = model[0].weight
    model.register_buffer("kept", torch.zeros(3, dtype=torch.float16))
    assert weight_bytes(model) == 24 * 4 + 6


@dataclass
class Held:
    """A pool's figures."""

    bytes: int = 3
    peak_bytes: int = 4
    evicted_for_bytes: int = 5


def test_the_pools_figures_are_told() -> None:
    found = Meter().read(0, Held())
    assert (found.pool, found.pool_peak, found.evicted_for_bytes) == (3, 4, 5)


def test_a_log_without_memory_still_reads(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    tally = Tally()
    tally.extend([plain_item(0), plain_item(1, outcome="wrong")])
    end = tally.end("complete", "")
    old = msgspec.json.encode({key: value for key, value in msgspec.to_builtins(end).items() if key != "memory"})
    path.write_bytes(lines(plain_run(schema_version=2), plain_item(0), plain_item(1)) + old + b"\n")
    read = read_log(path)
    assert read.end == end
    assert (end.items, end.correct, end.memory) == (2, 1, None)


def test_memory_goes_through_a_log_unchanged() -> None:
    end = Tally().end("failed", "why", Memory(peak=1, peak_since="run", weights=2))
    assert msgspec.json.decode(msgspec.json.encode(end), type=EndRecord) == end
