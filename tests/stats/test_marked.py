"""Logs that must be refused, with the field that differs, or marked in what is printed: one situation a row."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from loglines import item_record, write_log

from bcrbench.cli.stats import stats
from bcrbench.errors import UserError
from bcrbench.runs.schema import GradeRecord

N = 30
GOOD = [True] * 24 + [False] * 6
WORSE = [False] * 21 + [True] * 9
KV = "kvcomm:gamma=0.3"


def grades(outcomes: list[bool], grader: str = "exact", version: int = 1) -> list[GradeRecord]:
    return [
        GradeRecord(id=f"q{k}", grader=grader, grader_version=version, prediction=None,
                    outcome="correct" if right else "wrong")
        for k, right in enumerate(outcomes)
    ]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """What is done to a folder with a good Dense log, the options, and what is told."""

    do: Callable[[Path], object]
    told: str
    options: tuple[str, ...] = ()
    where: str = "stderr"  # or stdout


def kv(outcomes: list[Any] = WORSE, condition: str = KV, **changes: Any) -> Callable[[Path], object]:
    return lambda folder: write_log(folder / f"kv{len(list(folder.iterdir()))}.jsonl", condition, outcomes, **changes)


def rewritten(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], object]:
    """A log of KVComm whose lines are changed."""

    def do(folder: Path) -> None:
        path = write_log(folder / "kv.jsonl", KV, WORSE)
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))

    return do


def both(*parts: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda folder: [part(folder) for part in parts]


def changed_items(folder: Path) -> None:
    rng = random.Random(0)
    made = [item_record(k, "correct", rng) for k in range(N)]
    made[3].item_hash = "changed"
    write_log(folder / "kv.jsonl", KV, [], made=made)


def turned(folder: Path) -> None:
    rng = random.Random(0)
    made = [item_record(k, "correct", rng, id=f"q{N - 1 - k}", item_hash=f"h{N - 1 - k}") for k in range(N)]
    write_log(folder / "kv.jsonl", KV, [], made=made)


def gap(folder: Path) -> None:
    path = write_log(folder / "kv.jsonl", KV, WORSE, status=None, stateful=True)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], *lines[6:]]))


def torn_bytes(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


REFUSED = {
    "another item set": Case(kv(items={"hash": "set1"}), r"items\.hash is 'set1'"),
    "fewer items": Case(kv(WORSE[:20]), r"the number of items is 20 \(10 missing"),
    "another order": Case(turned, "the id at place 0 of the order is 'q29'"),
    "another question": Case(changed_items, "item_hash of 'q3' is 'changed'"),
    "other prompts": Case(kv(prompts={"hash": "p1"}), r"prompts\.hash is 'p1'"),
    "other weights": Case(kv(model={"weights_hash": "w9"}), r"model\.weights_hash is 'w9'"),
    "another configuration": Case(kv(model={"config_hash": "m9"}), r"model\.config_hash is 'm9'"),
    "another precision": Case(kv(model={"dtype": "float16"}), r"model\.dtype is 'float16'"),
    "another tokenizer": Case(kv(tokenizer={"hash": "t9"}), r"tokenizer\.hash is 't9'"),
    "another template": Case(kv(tokenizer={"chat_template_hash": "c9"}), r"tokenizer\.chat_template_hash is 'c9'"),
    "other recorded pages": Case(kv(tools={"pages": "r1"}), r"tools\.pages is 'r1', expected None"),
    "another grader": Case(kv(grader={"name": "lenient"}), "grader is 'lenient v1', expected 'exact v1'"),
    "another grader's version": Case(kv(grader={"version": 2}), "grader is 'exact v2', expected 'exact v1'"),
    "graded later by another version": Case(
        kv(["ungraded"] * N, grades=grades(WORSE, version=3)), "grader is 'exact v3', expected 'exact v1'"
    ),
    "graded in part by the grader asked for": Case(
        both(
            lambda folder: write_log(folder / "dense.jsonl", "dense", GOOD, grades=grades(GOOD, "strict")),
            kv(grades=grades(WORSE[:10], "strict")),
        ),
        "20 of 30 items lack a grade by 'strict'",
        ("--grader", "strict"),
    ),
    "another cell": Case(kv(cell={"agents": 5}), r"cell\.agents is 5, dense .* has 3", ("--vs", "dense")),
    "a newer schema": Case(kv(schema_version=99), "schema_version: 99 was written by a newer bcrbench"),
    "no schema": Case(kv(schema_version=0), "schema_version: 0, expected a whole number"),
    "torn in the middle": Case(rewritten(lambda lines: [*lines[:4], lines[4][:50] + b"\n", *lines[5:]]), ":5:"),
    "a blank line": Case(rewritten(lambda lines: [*lines[:4], b"\n", *lines[4:]]), "line is blank"),
    "an item twice": Case(rewritten(lambda lines: [*lines[:4], *lines[3:]]), "is on line 4 too, expected it once"),
    "two runs in a file": Case(rewritten(lambda lines: [*lines[:4], lines[0], *lines[4:]]), "a second run record"),
    "an item after the end": Case(
        both(
            kv(status="cancelled"),
            lambda folder: (folder / "kv1.jsonl").write_bytes(
                (folder / "kv1.jsonl").read_bytes()
                + msgspec.json.encode(item_record(N, "correct", random.Random()))
                + b"\n"
            ),
        ),
        "an item after the end record",
    ),
    "an end that counts otherwise": Case(rewritten(lambda lines: [*lines[:-2], lines[-1]]), "items: 30, expected 29"),
    "items missing inside a stateful run": Case(gap, "index: 4 is missing"),
    "another file's contents": Case(torn_bytes("x.jsonl", b'{"a": 1}\n'), "not a bcrbench log"),
    "two runs of one condition": Case(
        kv(GOOD, "dense", fingerprint="g", packages={"torch": "3.0"}), r"another fingerprint \(packages\.torch"
    ),
    "no item in common": Case(
        lambda folder: write_log(
            folder / "kv.jsonl",
            KV,
            [],
            made=[item_record(k, "correct", random.Random(k), id=f"r{k}") for k in range(N)],
        ),
        "no item is in all of",
        ("--intersect",),
    ),
}

MARKED = {
    "killed, shown": Case(
        kv(WORSE[:7], status=None, items={"count": N}), r"kvcomm:gamma=0\.3 \(killed\)", where="stdout"
    ),
    "killed, said": Case(
        kv(WORSE[:7], status=None, items={"count": N}), "killed, or still running.* after 7 of 30 items"
    ),
    "killed, not paired": Case(
        kv(WORSE[:7], status=None), r"is not paired with dense: kvcomm:gamma=0\.3 \(killed\) has 7 items; --intersect"
    ),
    "cancelled": Case(kv(status="cancelled"), r"kvcomm:gamma=0\.3 \(cancelled\)", where="stdout"),
    "failed": Case(kv(status="failed"), r"kvcomm:gamma=0\.3 \(failed\)", where="stdout"),
    "a torn last line": Case(rewritten(lambda lines: [*lines[:-1], lines[-1][:9]]), "a torn last line was left out"),
    "an empty file": Case(torn_bytes("empty.jsonl", b""), r"empty\.jsonl: empty, left out"),
    "a torn first line": Case(
        torn_bytes("torn.jsonl", b'{"record":"run","schema_ver'),
        "its first line is torn and no item was logged, left out",
    ),
    "a limit, shown": Case(kv(items={"limit": 30, "total": 90}), r"kvcomm:gamma=0\.3 ‡", where="stdout"),
    "a limit, explained": Case(
        kv(items={"limit": 30, "total": 90}), r"‡ .*30 of the task's 90 items \(--limit 30\)", where="stdout"
    ),
    "chosen ids": Case(kv(items={"total": 90}), "a choice of ids", where="stdout"),
    "errors": Case(kv(["error:oom", *WORSE[1:]]), r"1 items ended in errors and count as not correct \(1 error:oom\)"),
    "ungraded": Case(
        kv(["ungraded", *WORSE[1:]]), "1 of 30 items are ungraded, so it has no accuracy: `bcrbench grade"
    ),
    "few discordant pairs": Case(kv([False] * 4 + GOOD[4:]), "only 4 discordant pairs, fewer than 20"),
    "no discordant pair": Case(kv(GOOD), "no discordant pair, so nothing to test"),
    "identical runs": Case(
        both(
            kv(condition=KV, seed=1),
            lambda folder: (folder / "again.jsonl").write_bytes(
                (folder / "kv1.jsonl").read_bytes().replace(b"gamma=0.3", b"gamma=0.9")
            ),
        ),
        "did the setting arrive",
    ),
    "the same run twice": Case(
        both(kv(), lambda folder: (folder / "copy.jsonl").write_bytes((folder / "kv1.jsonl").read_bytes())),
        "the same fingerprint.*only the latter is counted",
    ),
    "another kernel": Case(kv(model={"kernel": "flex"}), r"model\.kernel is 'flex', dense ran with 'sdpa'"),
    "another device": Case(kv(device={"name": "y"}), r"device\.name is 'y'"),
    "other packages": Case(kv(packages={"torch": "3.0"}), r"packages\.torch is '3\.0'"),
    "another code": Case(kv(code={"version": "9"}), r"code\.version is '9'"),
    "other tools": Case(kv(tools={"sandbox": "rlimit"}), r"tools is \{'sandbox': 'rlimit'\}, dense ran with \{\}"),
    "an older schema": Case(
        lambda folder: write_log(folder / "kv.jsonl", KV, WORSE, schema_version=2),
        "schema_version is 2, dense ran with 1",
    ),
    "another cell": Case(kv(cell={"agents": 5}), "no dense log in this cell, so nothing is paired"),
    "seeds": Case(
        both(kv(), kv(GOOD, seeds={"run": 1}, fingerprint="s1")), r"kvcomm:gamma=0\.3 \[seed 1\]", where="stdout"
    ),
    "kernels": Case(
        both(kv(), kv(GOOD, model={"kernel": "tiles"}, fingerprint="k1")), r"\[kernel tiles\]", where="stdout"
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_log(tmp_path / "dense.jsonl", "dense", GOOD)
    return tmp_path


def run(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(stats, [str(folder), *options], catch_exceptions=False)


@pytest.mark.parametrize("case", REFUSED.values(), ids=list(REFUSED))
def test_refused_with_what_differs(folder: Path, case: Case) -> None:
    case.do(folder)
    with pytest.raises(UserError, match=case.told) as error:
        run(folder, *case.options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("case", MARKED.values(), ids=list(MARKED))
def test_marked_in_what_is_printed(folder: Path, case: Case) -> None:
    case.do(folder)
    made = run(folder, *case.options)
    assert made.exit_code == 0
    assert re.search(case.told, made.stdout if case.where == "stdout" else made.stderr)
    assert json.loads(run(folder, "--format", "json", *case.options).stdout)


def test_enough_situations_are_covered() -> None:
    assert len(REFUSED) >= 25 and len(MARKED) >= 20


def test_a_run_cut_short_is_paired_on_what_both_have_when_asked(folder: Path) -> None:
    kv(WORSE[:7], status=None)(folder)
    rows = json.loads(run(folder, "--format", "json").stdout)
    assert [(row["n"], row["b"], row["status"]) for row in rows] == [(30, None, "complete"), (7, None, "killed")]
    rows = json.loads(run(folder, "--format", "json", "--intersect").stdout)
    assert [(row["n"], row["b"]) for row in rows] == [(7, None), (7, 7)]


def test_only_a_missing_end_record_costs_nothing_but_a_mark(folder: Path) -> None:
    kv(status=None)(folder)
    rows = json.loads(run(folder, "--format", "json").stdout)
    assert (rows[1]["b"], rows[1]["status"]) == (21, "killed")


def test_nothing_but_empty_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(UserError, match="empty, expected a run record"):
        run(tmp_path)
    (tmp_path / "b.jsonl").touch()
    with pytest.raises(UserError, match="2 files hold no whole line, expected at least one run log"):
        run(tmp_path)


@pytest.mark.parametrize("fmt", ["table", "md", "latex"])
def test_marks_are_part_of_every_printed_table(folder: Path, fmt: str) -> None:
    kv(WORSE[:7], status="cancelled", items={"limit": 30, "total": 90})(folder)
    out = run(folder, "--format", fmt).stdout
    assert "(cancelled) ‡" in out and "30 of the task's 90 items" in out or "7 of the task's 90" in out


def test_records_are_the_agreed_keys_where_nothing_is_amiss(folder: Path) -> None:
    kv()(folder)
    clean = json.loads(run(folder, "--format", "json").stdout)
    assert not {"status", "of_items"} & clean[0].keys()
    kv(WORSE, "kvcomm:gamma=0.5", items={"limit": 30, "total": 90})(folder)
    assert [row["of_items"] for row in json.loads(run(folder, "--format", "json").stdout)] == [30, 30, 90]


def test_ungraded_items_take_the_grades_of_the_runs_own_grader(folder: Path) -> None:
    kv(["ungraded"] * 29 + ["error:oom"], grades=grades(WORSE))(folder)
    row = json.loads(run(folder, "--format", "json").stdout)[1]
    assert (row["correct"], row["b"]) == (8, 21), "the item that failed keeps its error"


def test_ungraded_items_are_never_counted_wrong(folder: Path) -> None:
    kv(["ungraded", *WORSE[1:]], grades=grades(WORSE, "another"))(folder)
    row = json.loads(run(folder, "--format", "json", "--paired", "--family", "holm").stdout)[1]
    empty = ("correct", "accuracy", "ci_low", "b", "p", "mid_p", "paired_se", "difference", "p_holm")
    assert [row[key] for key in empty] == [None] * len(empty) and row["n"] == 30
    assert "-" in run(folder).stdout


def test_the_lowest_seed_is_the_reference(folder: Path) -> None:
    kv(GOOD, "dense", seeds={"run": 3}, fingerprint="s3")(folder)
    rows = json.loads(run(folder, "--format", "json").stdout)
    assert [row["condition"] for row in rows] == ["dense [seed 0]", "dense [seed 3]"]
    assert [row["b"] for row in rows] == [None, 0]


UNLIKE = ["model.dtype", "tokenizer.hash", "prompts.hash", "tools.pages", "grader.name"]


def two_repairs(folder: Path, field: str) -> None:
    """Two conditions of a cell without a reference, which differ in one field."""
    part, _, key = field.partition(".")
    write_log(folder / "one.jsonl", "bcr-grow", GOOD)
    other: dict[str, Any] = {part: {key: "other"}}
    write_log(folder / "two.jsonl", "bcr-single", WORSE, **other)


@pytest.mark.parametrize("field", UNLIKE)
def test_what_no_reference_pairs_is_not_compared_unsaid(tmp_path: Path, field: str) -> None:
    two_repairs(tmp_path, field)
    assert re.search(f"note: not comparable: .*{field.removesuffix('.name')} is", run(tmp_path).stderr)
    with pytest.raises(UserError, match=field.removesuffix(".name")):
        run(tmp_path, "--cochran")
    for table in ("3", "15"):
        with pytest.raises(UserError, match=field.removesuffix(".name")):
            run(tmp_path, "--table", table)


@pytest.mark.parametrize("field", UNLIKE)
def test_seeds_that_differ_in_more_have_no_mean(tmp_path: Path, field: str) -> None:
    part, _, key = field.partition(".")
    for seed in range(3):
        other: dict[str, Any] = {part: {key: "other"}} if seed == 2 else {}
        name = f"bcr-chunk:select=coin,gamma=0.3,seed={seed}"
        write_log(tmp_path / f"{seed}.jsonl", name, GOOD, fingerprint=str(seed), **other)
    for table in ("1", "5", "11"):
        with pytest.raises(UserError, match=field.removesuffix(".name")):
            run(tmp_path, "--table", table)


@pytest.mark.parametrize("options", [(), ("--table", "2"), ("--table", "3"), ("--table", "6")])
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model": {"kernel": "flex"}}, "model.kernel"),
        ({"device": {"name": "y"}}, "device.name"),
        ({"tools": {"sandbox": "rlimit"}}, "tools"),
        ({"packages": {"torch": "3"}}, "packages.torch"),
    ],
)
def test_what_may_explain_a_difference_is_said_in_every_table(
    folder: Path, options: tuple[str, ...], changes: dict[str, Any], told: str
) -> None:
    assert f"{told} " not in run(folder, *options).output
    kv(**changes)(folder)
    assert f"{told} " in run(folder, *options).output


CUT = {
    "the row, cut short": (None, 7),
    "the row, without an item": ("cancelled", 0),
    "the row, failed": ("failed", 20),
}


@pytest.mark.parametrize("turned", [False, True], ids=["row", "reference"])
@pytest.mark.parametrize(("status", "count"), CUT.values(), ids=list(CUT))
def test_a_run_cut_short_breaks_nothing(tmp_path: Path, status: Any, count: int, turned: bool) -> None:
    runs = [("dense", GOOD), (KV, WORSE), ("bcr-grow", GOOD)]
    for k, (name, outcomes) in enumerate(runs):
        cut = (name == "dense") == turned and name != "bcr-grow"
        write_log(tmp_path / f"{k}.jsonl", name, outcomes[:count] if cut else outcomes,
                  status=status if cut else "complete")  # fmt: skip
    page = tmp_path / "out" / "page.html"
    made = run(tmp_path, "--html", str(page), "--latency", "--agents", "--paired")
    assert f"{count} items" in made.stderr and page.stat().st_size > 10_000
    assert run(tmp_path, "--cochran", "--sequential", "--power", "50", "--family", "holm").exit_code == 0
    for table in ("2", "3", "6", "7", "11", "14"):
        assert run(tmp_path, "--table", table, "--paper").exit_code == 0


def test_runs_without_items_break_nothing(tmp_path: Path) -> None:
    for name in ("dense", KV):
        write_log(tmp_path / f"{name}.jsonl", name, [])
    for table in range(1, 16):
        assert run(tmp_path, "--table", str(table), "--paper").exit_code == 0
    run(tmp_path, "--html", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").exists()
