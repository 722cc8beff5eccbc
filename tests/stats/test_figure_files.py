"""Figures as files: which, the same bytes every time, and nothing that a log's names could do to them."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest
from figurelogs import cell_of, dense_items, read_probe, reusing_items, write_probe
from loglines import write_log

from bcrbench.errors import UserError
from bcrbench.stats.cells import Cell
from bcrbench.stats.figures.collect import Drawing, collect
from bcrbench.stats.figures.registry import all_figures
from bcrbench.stats.figures.render import render
from bcrbench.stats.figures.style import COLOURS, look, named, styled
from bcrbench.stats.figures.write import file_stem, not_drawn, write_figures

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Cell:
    folder = tmp_path_factory.mktemp("logs")
    solved = [k % 3 > 0 for k in range(20)]
    return cell_of([
        write_log(folder / "d.jsonl", "dense", [True] * 20, made=dense_items([True] * 20)),
        write_log(folder / "k.jsonl", "kvcomm:gamma=1.0,$\\frac{$", solved, made=reusing_items(solved, first=5)),
    ])  # fmt: skip


def test_files_and_reasons(cell: Cell, tmp_path: Path) -> None:
    probe = read_probe(write_probe(tmp_path / "p.jsonl"))
    folder = tmp_path / "new" / "figures"
    written, notes = write_figures(folder, collect([cell], [probe]))
    drawn = {"warm-up", "reuse-line", "frontier", "units", "stages", "along-the-run"}
    assert {path.name for path in folder.iterdir()} == {
        f"{name}.{end}" for name in drawn for end in ("png", "pdf", "csv")
    }
    assert set(written) == set(folder.iterdir())
    assert notes == ["figure budget is not drawn: no repair was run at two budgets or more"]
    for name in drawn:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert list(csv.DictReader((folder / f"{name}.csv").open(encoding="utf-8")))


def test_without_logs_of_a_kind_each_figure_says_so() -> None:
    found = list(collect([], []))
    assert [drawing.figure.name for drawing in found] == [figure.name for figure in all_figures()]
    assert {drawing.why for drawing in found} == {"no log of a run", "no log of a probe"}


def test_the_same_bytes_in_another_process(cell: Cell, tmp_path: Path) -> None:
    (drawing,) = [one for one in collect([cell], []) if one.figure.name == "reuse-line"]
    assert drawing.chart
    mine = dict(zip(("png", "pdf", "svg"), render(drawing.chart, "png", "pdf", "svg"), strict=True))
    code = (
        "import sys; from pathlib import Path\n"
        "from figurelogs import cell_of\n"
        "from bcrbench.stats.figures import accuracy_by_reuse\n"
        "from bcrbench.stats.figures.render import render\n"
        "chart = accuracy_by_reuse.make(cell_of([Path(name) for name in sys.argv[2:]]))\n"
        "for kind, data in zip(('png', 'pdf', 'svg'), render(chart, 'png', 'pdf', 'svg')):\n"
        "    Path(sys.argv[1], kind).write_bytes(data)\n"
    )
    logs = [str(arm.path) for arm in cell.arms]
    path = f"{ROOT}:{ROOT / 'tests' / 'stats'}"
    subprocess.run([sys.executable, "-c", code, str(tmp_path), *logs], check=True, env={
        **os.environ, "PYTHONPATH": path, "MPLBACKEND": "pdf", "PYTHONHASHSEED": "7",
    })  # fmt: skip
    for kind, data in mine.items():
        assert (tmp_path / kind).read_bytes() == data
        assert b"CreationDate" not in data
        assert b"matplotlib.org" not in data.lower()


def test_a_condition_s_dollars_are_text(cell: Cell) -> None:
    (drawing,) = [one for one in collect([cell], []) if one.figure.name == "reuse-line"]
    assert drawing.chart
    (svg,) = render(drawing.chart, "svg")
    assert b"$\\frac{$" in svg


def test_names_of_files_come_from_no_path(cell: Cell) -> None:
    figure = all_figures()[0]
    hostile = Drawing(figure, 2, 3, "../../etc/passwd\0\n" + "x" * 500, None)
    stem = file_stem(hostile)
    assert stem.startswith("warm-up.2-etc-passwd-x")
    assert len(stem) < 80
    assert file_stem(Drawing(figure, 1, 2, "///", None)) == "warm-up.1"
    assert file_stem(Drawing(figure, 1, 1, "anything", None)) == "warm-up"


def test_reasons_are_said_once() -> None:
    one, two = all_figures()[:2]
    missing = [Drawing(one, k, 3, f"cell {k}", None, why) for k, why in enumerate(("this", "this", "that"), 1)]
    assert not_drawn([*missing, Drawing(two, 1, 1, "cell", None, "this")]) == [
        "figure warm-up is not drawn in 2 of 3 cells: this",
        "figure warm-up is not drawn (cell 3): that",
        "figure reuse-line is not drawn: this",
    ]


def test_a_folder_that_cannot_be_made_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="--plot"):
        write_figures(tmp_path / "file" / "figures", [])


def test_drawing_leaves_a_readers_own_settings_alone() -> None:
    matplotlib.rcParams["font.size"] = 31.0
    try:
        with styled():
            assert matplotlib.rcParams["font.size"] == 9.0
        assert matplotlib.rcParams["font.size"] == 31.0
    finally:
        matplotlib.rcdefaults()


def test_no_two_of_thirty_conditions_look_alike() -> None:
    looks = {(style["color"], style["marker"]) for style in map(look, range(30))}
    assert len(looks) == 30
    assert len({look(k)["marker"] for k in range(len(COLOURS))}) == len(COLOURS)


def test_long_and_odd_names_become_short_lines() -> None:
    assert named("dense") == "dense"
    assert named("a\nb\u202e") == "a\\nb\\u202e"
    assert len(named("k" * 300)) < 60
