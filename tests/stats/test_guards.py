"""What `stats` refuses to compare, and what it says about what it does compare."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from loglines import item_record, write_log

from bcrbench.errors import UserError
from bcrbench.runs.log import read_outcomes
from bcrbench.runs.schema import GradeRecord
from bcrbench.stats.cells import resolve
from bcrbench.stats.report import Options, Report, report

N = 40
DENSE = [True] * 35 + [False] * 5
WORSE = [False] * 12 + [True] * 28


def compare(paths: list[Path], fmt: str = "json", **options: Any) -> Report:
    return report([read_outcomes(path) for path in paths], Options(**options), fmt)


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    return write_log(tmp_path / "dense.jsonl", "dense", DENSE)


def other(dense: Path, outcomes: Any = WORSE, condition: str = "kvcomm:gamma=0.3", **changes: Any) -> Path:
    count = len(list(dense.parent.iterdir()))
    return write_log(dense.parent / f"other{count}.jsonl", condition, outcomes, **changes)


def shifted(first: int, count: int, **changes: Any) -> list[Any]:
    rng = random.Random(first)
    return [
        item_record(k, "correct", rng, id=f"q{first + k}", item_hash=f"h{first + k}", **changes) for k in range(count)
    ]


REFUSED = {
    "weights": ({"model": {"weights_hash": "w1"}}, "model.weights_hash is 'w1', expected 'w0'"),
    "configuration": ({"model": {"config_hash": "m1"}}, "model.config_hash is 'm1', expected 'm0'"),
    "precision": ({"model": {"dtype": "float16"}}, "model.dtype is 'float16', expected 'float32'"),
    "tokenizer": ({"tokenizer": {"hash": "t1"}}, "tokenizer.hash is 't1', expected 't0'"),
    "template": ({"tokenizer": {"chat_template_hash": "c1"}}, "tokenizer.chat_template_hash is 'c1', expected 'c0'"),
    "prompts": ({"prompts": {"hash": "p1"}}, "prompts.hash is 'p1', expected 'p0'"),
    "grader": ({"grader": {"version": 2}}, "grader is 'exact v2', expected 'exact v1'"),
    "items by name": ({"items": {"hash": "set1"}}, "items.hash is 'set1' (40 items), expected 'set0' (40 items)"),
    "items by cell": (
        {"items": {"hash": "set1"}, "cell": {"items": "set1"}},
        "items.hash is 'set1' (40 items), expected 'set0' (40 items)",
    ),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=list(REFUSED))
@pytest.mark.parametrize("vs", ["dense", None])
def test_what_differs_is_named_with_both_values(dense: Path, changes: dict[str, Any], message: str, vs: str) -> None:
    row = other(dense, **changes)
    with pytest.raises(UserError) as error:
        compare([dense, row], vs=vs)
    assert message in str(error.value)
    assert str(row) in str(error.value) and str(dense) in str(error.value)


def test_a_log_without_a_configuration_hash_still_pairs(dense: Path) -> None:
    assert "kvcomm" in compare([dense, other(dense, model={"config_hash": None})], vs="dense").text


def test_models_without_a_weights_hash_are_told_apart_by_id(dense: Path) -> None:
    plain = write_log(dense, "dense", DENSE, model={"weights_hash": None})
    with pytest.raises(UserError, match=r"model\.id is 'b', expected 'bundled'"):
        compare([plain, other(dense, model={"weights_hash": None, "id": "b"})])


ITEM_SETS = {
    "fewer": (shifted(0, 30), r"the number of items is 30 \(10 missing, 'q30' first\), expected the same 40"),
    "others": (shifted(5, 40), r"the number of items is 40 \(5 missing, 'q0' first, 5 more, 'q40' first\)"),
    "another order": (
        [*shifted(0, 38), *(item_record(38 + k, "wrong", random.Random(), id=f"q{39 - k}") for k in range(2))],
        "the id at place 38 of the order is 'q39', expected 'q38'",
    ),
    "another question under the same id": (
        [*shifted(0, 39), item_record(39, "wrong", random.Random(), item_hash="changed")],
        "item_hash of 'q39' is 'changed', expected 'h39'",
    ),
}


@pytest.mark.parametrize(("items", "message"), ITEM_SETS.values(), ids=list(ITEM_SETS))
def test_unequal_items_are_refused(dense: Path, items: list[Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        compare([dense, other(dense, [], made=items)])


def test_intersect_pairs_what_all_have_and_says_so(dense: Path) -> None:
    part = other(dense, [], made=shifted(5, 40))
    made = compare([dense, part], intersect=True)
    rows = json.loads(made.text)
    assert [row["n"] for row in rows] == [35, 35]
    assert (rows[1]["b"], rows[1]["c"]) == (0, 5)
    assert made.notes[0].startswith("--intersect: paired on the 35 items that all 2 logs have; left out: 5 of dense, 5")


def test_intersect_still_refuses_another_question_and_other_prompts(dense: Path) -> None:
    changed = [*shifted(0, 39), item_record(39, "wrong", random.Random(), item_hash="changed")]
    with pytest.raises(UserError, match="item_hash of 'q39'"):
        compare([dense, other(dense, [], made=changed)], intersect=True)
    with pytest.raises(UserError, match="prompts.hash"):
        compare([dense, other(dense, prompts={"hash": "p1"})], intersect=True)
    with pytest.raises(UserError, match="no item is in all of"):
        compare([dense, other(dense, [], made=shifted(100, 40))], intersect=True)


def test_intersect_joins_cells_that_differ_in_their_items_only(dense: Path) -> None:
    part = other(dense, WORSE[:20], cell={"items": "set1"}, items={"hash": "set1"}, stateful=True)
    made = compare([dense, part], intersect=True)
    assert any("paired on the 20 items" in note for note in made.notes)
    assert any("stateful" in note for note in made.notes)


def test_another_cell_is_not_a_reference(dense: Path) -> None:
    row = other(dense, cell={"model": "w1"}, model={"weights_hash": "w1"})
    with pytest.raises(UserError, match=r"cell\.model is 'w1', dense .* has 'w0'"):
        compare([dense, row], vs="dense")
    made = compare([dense, row])
    assert any("nothing is paired" in note and "'w1'" in note for note in made.notes)


def test_one_condition_twice_must_be_one_run(dense: Path) -> None:
    again = other(dense, WORSE, "dense", fingerprint="g", resolved={"seed": 7})
    with pytest.raises(UserError, match=r"another fingerprint \(resolved\.seed: 7 and 0\)"):
        compare([dense, again])
    same = other(dense, [*DENSE[:-1], True], "dense", seed=3)
    made = compare([dense, same])
    assert any("the same fingerprint" in note and "differ on 1 items" in note for note in made.notes)
    assert made.text.count('"condition"') == 1


def test_the_fuller_of_two_logs_of_one_run_counts(dense: Path) -> None:
    part = other(dense, DENSE[:10], "dense", status=None)
    for paths in ([dense, part], [part, dense]):
        made = compare(paths)
        assert f"{part} repeats {dense}" in made.notes[0] and '"n": 40' in made.text


@pytest.mark.parametrize(
    ("vs", "found"),
    [
        ("dense", "dense"),
        ("kvcomm:gamma=0.3", "kvcomm:gamma=0.3"),
        ("kvcomm:gamma=0.35", "kvcomm:gamma=0.35,frame=canonical"),
        ("kv", None),
        ("kvcomm", None),
        ("open", "opengate:theta=0.5"),
    ],
)
def test_a_reference_is_named_by_its_beginning(vs: str, found: str | None) -> None:
    known = [
        "dense",
        "dense:tokens=merged",
        "kvcomm:gamma=0.3",
        "kvcomm:gamma=0.35,frame=canonical",
        "opengate:theta=0.5",
    ]
    if found:
        assert resolve(vs, known) == found
        return
    with pytest.raises(UserError, match="begins 2 conditions .*expected one"):
        resolve(vs, known)


def test_an_unknown_reference_gets_the_nearest_match(dense: Path) -> None:
    with pytest.raises(UserError, match="unknown condition for --vs 'dens3' \\(did you mean 'dense'"):
        compare([dense], vs="dens3")


def test_few_discordant_pairs_are_said_with_the_edge(dense: Path) -> None:
    few = other(dense, [False] * 10 + [True] * 25 + [False] * 5)
    notes = compare([dense, few], vs="dense").notes
    assert any(
        "only 10 discordant pairs, fewer than 20; the smallest significant split of 10 is 9/1" in n for n in notes
    )
    fewer = other(dense, [False] * 2 + DENSE[2:], "kvcomm:gamma=0.9")
    assert any("no split of 2 is significant" in note for note in compare([dense, fewer]).notes)
    many = other(dense, [False] * 20 + DENSE[20:], "kvcomm:gamma=1.0")
    assert not any("discordant" in note for note in compare([dense, many]).notes)


def test_identical_answers_ask_whether_the_setting_arrived(dense: Path) -> None:
    items = shifted(0, N)
    one = other(dense, [], "kvcomm:gamma=0.3", made=items, effective={"gamma": 0.3})
    two = other(dense, [], "kvcomm:gamma=0.5", made=items, effective={"gamma": 0.3})
    notes = compare([dense, one, two]).notes
    told = [note for note in notes if "did the setting arrive?" in note]
    assert len(told) == 1
    assert "kvcomm:gamma=0.3 and kvcomm:gamma=0.5" in told[0] and "gamma=0.3 and" in told[0]
    more = other(dense, [], "kvcomm:gamma=0.9", made=items)
    [grouped] = [note for note in compare([dense, one, two, more]).notes if "did the setting arrive?" in note]
    assert "kvcomm:gamma=0.3, kvcomm:gamma=0.5 and kvcomm:gamma=0.9" in grouped, "one note a group, not one a pair"
    items[-1].text += "."
    three = other(dense, [], "kvcomm:gamma=0.7", made=items)
    [told_only] = [note for note in compare([dense, one, three]).notes if "with texts that differ" in note]
    assert "kvcomm:gamma=0.3 and kvcomm:gamma=0.7 gave identical outcomes on all" in told_only
    assert not any("kvcomm:gamma=0.7" in note and "arrive" in note for note in compare([dense, one, three]).notes)


@pytest.mark.parametrize(
    ("status", "told", "mark"),
    [
        (None, "has no end record (killed, or still running)", "dense (killed)"),
        ("cancelled", "was cancelled", "dense (cancelled)"),
        ("failed", "was stopped by an error", "dense (failed)"),
    ],
)
def test_partial_runs_are_marked(tmp_path: Path, status: Any, told: str, mark: str) -> None:
    path = write_log(tmp_path / "x.jsonl", "dense", DENSE[:7], status=status, items={"count": 40, "total": 40})
    made = compare([path], "table")
    assert any(told in note and "7 of 40 items" in note for note in made.notes)
    assert mark in made.text
    assert mark not in compare([path]).text


def test_limits_torn_tails_and_errors_are_said(tmp_path: Path) -> None:
    path = write_log(tmp_path / "x.jsonl", "dense", [True, "error:oom"], items={"limit": 2, "total": 40}, status=None)
    path.write_bytes(path.read_bytes() + b'{"record"')
    notes = "\n".join(compare([path]).notes)
    assert "dense: 2 of the task's 40 items (--limit 2), not the whole set" in notes
    assert "a torn last line was left out" in notes
    assert "1 items ended in errors and count as not correct (1 error:oom)" in notes
    chosen = write_log(tmp_path / "x.jsonl", "dense", [True], items={"limit": None, "total": 40})
    assert any("(a choice of ids)" in note for note in compare([chosen]).notes)


def test_another_kernel_is_said_but_not_refused(dense: Path) -> None:
    notes = compare([dense, other(dense, model={"kernel": "flex"})]).notes
    assert "kvcomm:gamma=0.3: model.kernel is 'flex', dense ran with 'sdpa'" in notes


def grades(outcomes: list[bool], version: int = 1) -> list[GradeRecord]:
    return [
        GradeRecord(id=f"q{k}", grader="strict", grader_version=version, prediction=None,
                    outcome="correct" if right else "wrong")
        for k, right in enumerate(outcomes)
    ]  # fmt: skip


def test_another_graders_outcomes_replace_the_runs_own(dense: Path) -> None:
    one = write_log(dense, "dense", DENSE, grades=grades([True] * N) + grades([False] * 3 + [True] * 37, version=2))
    two = other(dense, WORSE, grades=grades([False] * N, version=2))
    rows = json.loads(compare([one, two], grader="strict").text)
    assert [row["correct"] for row in rows] == [37, 0]
    assert [row["correct"] for row in json.loads(compare([one, two]).text)] == [35, 28]
    assert [row["correct"] for row in json.loads(compare([one, two], grader="exact").text)] == [35, 28]
    older = other(dense, WORSE, "kvcomm:gamma=0.9", grades=grades(WORSE))
    with pytest.raises(UserError, match="grader is 'strict v1', expected 'strict v2'"):
        compare([one, older], grader="strict")


def test_missing_grades_are_counted(dense: Path) -> None:
    part = other(dense, WORSE, grades=grades(WORSE[:28]))
    with pytest.raises(UserError, match=r"12 of 40 items lack a grade by 'strict' \(first: 'q28'\)"):
        compare([part], grader="strict")
    with pytest.raises(UserError, match=r"unknown grader 'stict' \(did you mean 'strict'"):
        compare([part], grader="stict")


def test_a_limit_above_the_total_left_nothing_out(tmp_path: Path) -> None:
    path = write_log(tmp_path / "x.jsonl", "dense", [True, True], items={"limit": 900, "total": 2})
    assert not any("whole set" in note for note in compare([path]).notes)
