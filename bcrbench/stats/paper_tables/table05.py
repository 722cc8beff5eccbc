"""Table 5: where repair works, roles pinned, and CacheBlend against BCR-chunk (section 4.3)."""

from __future__ import annotations

from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.paper_tables import grid, measures, wants
from bcrbench.stats.paper_tables.build import Build, where_of
from bcrbench.stats.paper_tables.panel import Column, Line, Panel
from bcrbench.stats.paper_tables.places import TITLES, Place, agents_of, model_of, size_of, task_of
from bcrbench.stats.paper_tables.table11 import coins
from bcrbench.stats.seeds import over_seeds

PLACES = [Place("gsm8k", 5, 300, pinned=True), Place("mmlu", 5, 300, pinned=True)]
GAMMA = 0.3
ROWS = [
    ("kvcomm", wants.kvcomm(GAMMA)),
    ("coin", wants.bcr("chunk", GAMMA, "coin")),
    ("draft", wants.bcr("chunk", GAMMA)),
    ("token-matched", wants.token_matched()),
    ("dense", wants.dense()),
]
LABELS = {"coin": "BCR-chunk, coin", "draft": "BCR-chunk, draft"}


def build(made: Build) -> list[Panel]:
    """Panel (a), the pinned cells, and panel (b), the grid's pooled splits."""
    return [_pinned(made), _pooled(made)]


def _pinned(made: Build) -> Panel:
    lines = {name: Line(name, {"method": LABELS.get(name, want.label)}) for name, want in ROWS}
    columns = [Column("method", "Method", names=True)]
    for key, title, place, cell in _blocks(made):
        columns += [
            Column(f"{key}_accuracy", f"{title} acc.", "percent"),
            Column(f"{key}_split", f"{title} b/c", "split"),
            Column(f"{key}_p", f"{title} p", "p*"),
        ]
        _fill(made, lines, key, place, cell)
    lines["draft"].shaded.update(column.key for column in columns[1:])
    notes = [
        "b: items that KVComm solves and the row misses, c: the reverse; *: p < 0.05; the coin's accuracy is the mean "
        "over its seeds, which has no split of its own",
    ]
    return Panel("5(a)", "Cost and repair, roles pinned", columns, list(lines.values()), notes=notes)


def _blocks(made: Build) -> list[tuple[str, str, Place, Cell | None]]:
    """A block of columns a cell: its key and title."""
    spots = made.spots(PLACES)
    plain = len(spots) == len({place.task for place, cell in spots}) and all(
        cell is None or task_of(cell) == place.task for place, cell in spots
    )
    if plain:
        return [(place.task, TITLES[place.task], place, cell) for place, cell in spots]
    named: list[tuple[str, str, Place, Cell | None]] = []
    for place, cell in spots:
        if cell is None:
            continue
        key = f"{task_of(cell)}@{model_of(cell)}@{agents_of(cell)}@{size_of(cell)}"
        named.append((key, f"{task_of(cell)} {agents_of(cell)} ({model_of(cell)})", place, cell))
    return named


def _fill(made: Build, lines: dict[str, Line], key: str, place: Place, cell: Cell | None) -> None:
    where = where_of(cell, place)
    kvcomm = made.arm(cell, dict(ROWS)["kvcomm"], where)
    for name, want in ROWS:
        if name == "coin":
            _fill_coin(lines[name], key, coins(made, cell, want, where))
            continue
        arm = made.arm(cell, want, where)
        lines[name].put(f"{key}_accuracy", measures.accuracy(arm), arm)
        found = made.pair(kvcomm, arm, where) if arm is not kvcomm else None
        lines[name].put(f"{key}_split", found, arm, kvcomm)
        lines[name].put(f"{key}_p", measures.p_of(found), arm, kvcomm)


def _fill_coin(line: Line, key: str, runs: dict[str, Arm]) -> None:
    known = [arm.accuracy for arm in runs.values() if arm.accuracy is not None]
    line.put(f"{key}_accuracy", over_seeds(known).mean if known else None, *runs.values())


def _pooled(made: Build) -> Panel:
    groups = grid.shown_groups(made)
    columns = [Column("pairing", "pairing", names=True), *(Column(g.key, g.title, "split") for g in groups)]
    lines = []
    for name in ("reuse", "cost"):
        line = Line(name, {"pairing": name})
        for group in groups:
            grid.put_pooled(line, group.key, grid.splits(made, group, f"blend-{name}", "chunk").values())
        lines.append(line)
    notes = [
        "b: items that CacheBlend solves and BCR-chunk misses, c: the reverse, summed over agent counts: the cells "
        "re-run the same items, so the sums carry no test",
    ]
    return Panel("5(b)", "CacheBlend against BCR-chunk, pooled", columns, lines, notes=notes)
