"""Logs with the paper's counts print the paper's figures: accuracies, intervals, splits, p, rates and residuals."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loglines import run_record
from papergrid import one_call, save

from bcrbench.runs.log import read_outcomes
from bcrbench.runs.schema import ItemRecord
from bcrbench.stats.paper_tables.printed import printed
from bcrbench.stats.paper_tables.report import make_table

SIZES = {"mmlu": 153, "gsm8k": 150, "humaneval": 160}
SPLIT_NAMES = {"dense": "dense", "chunk": "bcr-chunk", "grow": "bcr-grow", "single": "bcr-single"}


def flags_of(reference: Sequence[bool], only_reference: int, only_row: int) -> list[bool]:
    """A row that loses so many of the items that the reference solves, and gains so many of the others."""
    lost = [k for k, right in enumerate(reference) if right][:only_reference]
    gained = [k for k, right in enumerate(reference) if not right][:only_row]
    assert (len(lost), len(gained)) == (only_reference, only_row)
    return [(right and k not in lost) or k in gained for k, right in enumerate(reference)]


def write(
    folder: Path, condition: str, flags: Sequence[bool], task: str = "gsm8k", agents: int = 3, reused: int = 0,
    calls: int = 0, pinned: bool = False,
) -> None:  # fmt: skip
    """A log with these outcomes, `calls` an item, the first `reused` of all calls served from cache."""
    rng = random.Random(0)
    served = ["reuse"] * reused + ["dense"] * (calls * len(flags) - reused)
    items = [
        ItemRecord(
            index=k, id=f"{task}{k}", item_hash="h", gold="", text=f"{condition} {k}", prediction=None,
            outcome="correct" if right else "wrong", wall_s=1.0,
            calls=[one_call(rng, "1", served=serving, selected_spans=None)
                   for serving in served[k * calls : (k + 1) * calls]],
        )
        for k, right in enumerate(flags)
    ]  # fmt: skip
    roles = ["a"] * agents if pinned else ["a", "b"] * agents
    cell = {"task": task, "agents": agents, "roles": roles, "items": f"{task}{len(flags)}"}
    record = run_record(
        condition, len(items), fingerprint=f"{condition}{agents}{task}{len(flags)}", task=task, cell=cell, effective={},
        resolved={"roles": "pin:a" if pinned else "cycle"}, items={"hash": f"{task}{len(flags)}"},
    )  # fmt: skip
    save(folder / f"{len(list(folder.iterdir())):03}.jsonl", [record, *items], "complete", len(items))


def mismatches(folder: Path, number: str, skip: Sequence[str] = ()) -> tuple[list[str], int]:
    """Cells whose text is not the paper's, and how many were compared; printed rows in `skip` are left out."""
    panels, _ = make_table(number, [read_outcomes(path) for path in sorted(folder.glob("*.jsonl"))])
    wrong, count = [], 0
    for panel in panels:
        for line in panel.lines:
            for column in panel.columns:
                beside = printed(number)["panels"].get(panel.name, {}).get(line.name, {}).get(column.key)
                if beside is None or line.values.get(column.key) is None or column.key in skip or line.name in skip:
                    continue
                form = line.form(column)
                ours, theirs = form.show(line.values[column.key]), form.show(form.read(beside))
                count += 1
                wrong += [f"{panel.name} {line.name} {column.key}: {ours}, printed {theirs}"] if ours != theirs else []
    return wrong, count


def test_table_2(tmp_path: Path) -> None:
    dense = [True] * 257 + [False] * 43
    write(tmp_path, "dense", dense, calls=4)
    for condition, b, c, reused in (
        ("kvcomm:gamma=0.3", 23, 10, 766), ("opengate:theta=0.5", 37, 17, 1082), ("kvcomm:gamma=1.0", 35, 12, 1151),
    ):  # fmt: skip
        write(tmp_path, condition, flags_of(dense, b, c), reused=reused, calls=4)
    assert mismatches(tmp_path, "2") == ([], 3 + 3 * 7)


def test_table_7_and_its_short_form(tmp_path: Path) -> None:
    dense = [True] * 128 + [False] * 22
    write(tmp_path, "dense", dense, agents=5, calls=6, pinned=True)
    for condition, b, c, reused in (
        ("protect-root:gamma=0.3", 12, 2, 410), ("random:gamma=0.3", 14, 5, 409),
        ("protect-leaf:gamma=0.3", 18, 6, 454), ("kvcomm:gamma=0.3", 21, 6, 540),
    ):  # fmt: skip
        write(tmp_path, condition, flags_of(dense, b, c), agents=5, reused=reused, calls=6, pinned=True)
    assert mismatches(tmp_path, "7") == ([], 5 + 4 * 6)
    assert mismatches(tmp_path, "4") == ([], 10)


def test_table_6(tmp_path: Path) -> None:
    blocks = [(48, 49, 129), (53, 48, 150), (54, 51, 163), (50, 48, 162), (52, 48, 162)]
    dense = [k < one for one, _, _ in blocks for k in range(60)]
    kvcomm = [k < two for _, two, _ in blocks for k in range(60)]
    write(tmp_path, "dense", dense)
    write(tmp_path, "kvcomm:gamma=0.3", kvcomm, reused=766, calls=4)
    wrong, count = mismatches(tmp_path, "6", skip=["rate"])
    assert (wrong, count) == ([], 18)


def test_table_9(tmp_path: Path) -> None:
    default = [True] * 49 + [False] * 11
    write(tmp_path, "dense", [True] * 48 + [False] * 12, calls=4)
    write(tmp_path, "kvcomm:gamma=0.3", default, reused=129, calls=4)
    for gamma, b, c, reused in ((0.5, 1, 1, 161), (0.7, 5, 3, 189), (1.0, 3, 1, 201)):
        write(tmp_path, f"kvcomm:gamma={gamma}", flags_of(default, b, c), reused=reused, calls=4)
    wrong, count = mismatches(tmp_path, "9", skip=["ttft_ms", "e2e_s", "late"])
    assert (wrong, count) == ([], 5 * 4 + 3)


def test_table_11_and_its_short_form(tmp_path: Path) -> None:
    seeds = {0.05: (117, 112, 117, 113), 0.1: (115, 114, 123, 113), 0.2: (105, 117, 121, 122),
             0.3: (122, 117, 113, 124), 0.4: (118, 116, 119, 120)}  # fmt: skip
    for rho, counts in seeds.items():
        for seed, solved in enumerate(counts):
            condition = f"bcr-chunk:gamma=0.3,rho={rho},select=coin,seed={seed}"
            write(tmp_path, condition, [True] * solved + [False] * (150 - solved), agents=2)
    write(tmp_path, "kvcomm:gamma=0.3", [True] * 116 + [False] * 34, agents=2)
    write(tmp_path, "dense", [True] * 124 + [False] * 26, agents=2)
    assert mismatches(tmp_path, "11") == ([], 5 * 6 + 4)
    assert mismatches(tmp_path, "1") == ([], 3 * 2 + 2)


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference grid's runs against KVComm, whose splits Table 13 prints."""
    folder = tmp_path_factory.mktemp("grid")
    accuracies, splits = printed("3")["panels"]["3"]["accuracy kvcomm"], printed("13")["panels"]["13"]
    for task, n in SIZES.items():
        gamma = 1.0 if task == "humaneval" else 0.3
        for agents in (2, 3, 4, 5):
            solved = round(accuracies[f"{task}_{agents}"] / 100 * n)
            kvcomm = [True] * solved + [False] * (n - solved)
            write(folder, f"kvcomm:gamma={gamma}", kvcomm, task, agents)
            for name, condition in SPLIT_NAMES.items():
                b, c = splits[f"{task} {name}"][f"split_{agents}"]
                text = condition if name == "dense" else f"{condition}:gamma={gamma}"
                write(folder, text, flags_of(kvcomm, c, b), task, agents)
    return folder


def test_table_13(grid: Path) -> None:
    assert mismatches(grid, "13") == ([], 96)


def test_table_3_and_4(grid: Path) -> None:
    assert mismatches(grid, "3") == ([], 5 * 15)
    assert mismatches(grid, "4") == ([], 3 * 3 + 3 * 9)


def test_table_5a(tmp_path: Path) -> None:
    for task, solved, rows, coins in (
        ("gsm8k", 213, {"bcr-chunk:gamma=0.3": (9, 49), "dense": (10, 51)}, (223, 231, 236, 246, 248)),
        ("mmlu", 155, {"bcr-chunk:gamma=0.3": (12, 21), "dense:tokens=merged": (25, 48), "dense": (21, 64)}, (150,)),
    ):
        kvcomm = [True] * solved + [False] * (300 - solved)
        write(tmp_path, "kvcomm:gamma=0.3", kvcomm, task, 5, pinned=True)
        for condition, (b, c) in rows.items():
            write(tmp_path, condition, flags_of(kvcomm, b, c), task, 5, pinned=True)
        for seed, count in enumerate(coins):
            flags = [True] * count + [False] * (300 - count)
            write(tmp_path, f"bcr-chunk:gamma=0.3,select=coin,seed={seed}", flags, task, 5, pinned=True)
    assert mismatches(tmp_path, "5") == ([], 4 + 5 + 2 * 2 + 3 * 2)


def test_table_12(tmp_path: Path) -> None:
    names = {"1": "bcr-single", "2": "bcr-grow:cap=2", "4": "bcr-grow:cap=4", "8": "bcr-grow:cap=8",
             "16": "bcr-grow:cap=16", "chunk": "bcr-chunk", "blend-cost": "cacheblend:match=cost",
             "blend-reuse": "cacheblend:match=reuse:0.6", "dense": "dense", "kvcomm": "kvcomm:gamma=0.3"}  # fmt: skip
    rows = printed("12")["panels"]["12"]
    for agents in (2, 4):
        solved = round(rows["grow"][f"accuracy_{agents}"] / 100 * 150)
        ref = [True] * solved + [False] * (150 - solved)
        write(tmp_path, "bcr-grow:gamma=0.3", ref, agents=agents)
        for name, condition in names.items():
            if f"split_{agents}" in rows[name]:
                b, c = rows[name][f"split_{agents}"]
                write(tmp_path, condition, flags_of(ref, c, b), agents=agents)
    # Lengths are not in these logs, but a cap of 1 has one.
    assert mismatches(tmp_path, "12") == ([], 1 + 2 + (8 + 8) * 3)


def test_tables_14_and_5b(tmp_path: Path) -> None:
    names = {"blend-reuse": "cacheblend:match=reuse:0.6", "blend-cost": "cacheblend:match=cost",
             "grow": "bcr-grow", "single": "bcr-single"}  # fmt: skip
    accuracies, splits = printed("3")["panels"]["3"]["accuracy chunk"], printed("14")["panels"]["14"]
    for task, n in SIZES.items():
        for agents in (2, 3, 4, 5):
            solved = round(accuracies[f"{task}_{agents}"] / 100 * n)
            chunk = [True] * solved + [False] * (n - solved)
            write(tmp_path, "bcr-chunk", chunk, task, agents)
            for name, condition in names.items():
                b, c = splits[f"{task} {name}"][f"split_{agents}"]
                write(tmp_path, condition, flags_of(chunk, c, b), task, agents)
    assert mismatches(tmp_path, "14") == ([], 96)
    assert mismatches(tmp_path, "5") == ([], 6)
    wrong, count = mismatches(tmp_path, "3")
    assert (wrong, count) == ([], 5 * 15)


def values_of(number: str, logs: list[Any]) -> dict[str, dict[str, Any]]:
    """A grid table's values by row."""
    panels, _ = make_table(number, logs)
    return {line.name: line.values for panel in panels if panel.name in (number, "4(c)") for line in panel.lines}


flags = st.lists(st.booleans(), min_size=5, max_size=5)


@given(cells=st.lists(st.tuples(flags, flags, flags), min_size=4, max_size=4))
@settings(max_examples=20, deadline=None)
def test_splits_are_consistent_with_each_other_and_with_their_sums(cells: list[tuple[list[bool], ...]]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        for agents, trio in zip((2, 3, 4, 5), cells, strict=True):
            for condition, solved in zip(("kvcomm:gamma=0.3", "bcr-chunk", "bcr-single"), trio, strict=True):
                write(folder, condition, solved, agents=agents)
        logs = [read_outcomes(path) for path in folder.glob("*.jsonl")]
        found = {number: values_of(number, logs) for number in ("4", "13", "14")}
    chunk, single, between = found["13"]["gsm8k chunk"], found["13"]["gsm8k single"], found["14"]["gsm8k single"]
    for agents, (kvcomm, *_) in zip((2, 3, 4, 5), cells, strict=True):
        nets = [split[f"split_{agents}"].b - split[f"split_{agents}"].c for split in (chunk, single, between)]
        sizes = [sum(split[f"split_{agents}"]) for split in (chunk, single, between)]
        assert nets[2] == nets[1] - nets[0] and abs(nets[0]) <= sizes[0] <= len(kvcomm)
        assert sum(sizes) % 2 == 0 and 2 * max(sizes) <= sum(sizes)
    for side in (0, 1):
        assert found["4"]["gsm8k"]["single"][side] == sum(single[f"split_{agents}"][side] for agents in (2, 3, 4, 5))
