"""Reading logs: whatever was written comes back, whatever was lost is reported, whatever is wrong has a line number."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from arbitrary import lines, plain_item, plain_run, records
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bcrbench.errors import UserError
from bcrbench.runs.log import LogWriter, log_name, read_log, read_outcomes, repair_tail
from bcrbench.runs.names import safe
from bcrbench.runs.schema import EndRecord, GradeRecord, ItemRecord, RunRecord

END = EndRecord(status="complete", items=3, correct=3, calls=0, reused=0, new_tokens=0, wall_s=1.5)
GRADE = GradeRecord(id="q1", grader="strict", grader_version=2, prediction=None, outcome="wrong")
WHOLE = [plain_run(), *map(plain_item, range(3)), END, GRADE]

few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "x.jsonl"


def write(path: Path, *items: Any) -> Path:
    path.write_bytes(lines(*items))
    return path


@few
@given(run=records(RunRecord), items=st.lists(records(ItemRecord), max_size=3), grade=records(GradeRecord))
def test_every_record_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, run: RunRecord, items: list[ItemRecord], grade: GradeRecord
) -> None:
    path = tmp_path_factory.mktemp("log") / "x.jsonl"
    run.schema_version = 1
    for index, item in enumerate(items):
        item.index, item.id = index, f"{item.id}{index}"
    end = EndRecord(status="failed", items=len(items), correct=0, calls=0, reused=0, new_tokens=0, wall_s=0.1, why="é")
    with LogWriter(path) as writer:
        writer.append(run)
        writer.extend(items)
        writer.append(end)
        writer.append(grade)
    read = read_log(path)
    assert (read.run, read.items, read.end, read.grades, read.torn) == (run, items, end, [grade], False)
    assert read.status == "failed"


@few
@given(item=records(ItemRecord))
def test_the_fast_reader_agrees_with_the_full_one(tmp_path_factory: pytest.TempPathFactory, item: ItemRecord) -> None:
    path = write(tmp_path_factory.mktemp("log") / "x.jsonl", plain_run(), item)
    full, fast = read_log(path), read_outcomes(path)
    assert full.run == fast.run
    slim = msgspec.convert(msgspec.to_builtins(full.items[0]), type(fast.items[0]))
    assert fast.items == [slim]


@pytest.mark.parametrize("reader", [read_log, read_outcomes])
def test_a_log_cut_anywhere_is_shorter_or_torn_and_never_wrong(log: Path, reader: Any) -> None:
    data = lines(*WHOLE)
    ends = [0]
    for line in data.splitlines(keepends=True):
        ends.append(ends[-1] + len(line))
    for cut in range(len(data) + 1):
        log.write_bytes(data[:cut])
        whole = max(end for end in ends if end <= cut)
        if whole == 0:
            with pytest.raises(UserError, match="empty|torn"):
                reader(log)
            continue
        read = reader(log)
        assert read.torn == (cut not in ends)
        held = chain([read.run], read.items, [read.end] if read.end else [], read.grades)
        assert len(list(held)) == ends.index(whole)


@given(cut=st.integers(1), length=st.integers(1, 3000))
@settings(max_examples=60, deadline=None)
def test_a_tail_of_nul_bytes_is_torn_and_repaired(
    tmp_path_factory: pytest.TempPathFactory, cut: int, length: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "x.jsonl"
    last = lines(plain_item(1))
    kept = last[: cut % len(last)]
    good = lines(plain_run(), plain_item(0))
    for tail in (kept + b"\0" * length, kept + b"\0" * length + b"\n"):
        path.write_bytes(good + tail)
        read = read_log(path)
        assert read.torn and [item.index for item in read.items] == [0]
        assert repair_tail(path) == len(tail)
        assert path.read_bytes() == good
        assert repair_tail(path) == 0


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_damage_in_the_middle_is_an_error_with_its_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("log") / "x.jsonl"
    rows = lines(*WHOLE).splitlines()
    number = data.draw(st.integers(2, len(rows) - 1))
    junk = data.draw(st.binary(max_size=20).filter(lambda b: b"\n" not in b) | st.just(rows[number - 1][:-3]))
    rows[number - 1] = junk
    path.write_bytes(b"\n".join(rows) + b"\n")
    for reader in (read_log, read_outcomes):
        with pytest.raises(UserError) as error:
            reader(path)
        assert str(error.value).startswith(f"{path}:{number}: ")
        assert "expected" in str(error.value).lower() and "\n" not in str(error.value)


BAD_ITEM = {
    "a wrong type": ({"index": "1"}, "index: expected `int`, got `str`"),
    "an outcome of no kind": ({"outcome": "Correct"}, "outcome: expected `str` matching regex"),
    "calls that are no list": ({"calls": {}}, "calls: expected `array`, got `object`"),
}


@pytest.mark.parametrize(("change", "message"), BAD_ITEM.values(), ids=list(BAD_ITEM))
@pytest.mark.parametrize("reader", [read_log, read_outcomes])
def test_a_bad_field_is_named(log: Path, reader: Any, change: dict[str, Any], message: str) -> None:
    item = {**msgspec.to_builtins(plain_item(0)), **change}
    log.write_bytes(lines(plain_run()) + msgspec.json.encode(item) + b"\n" + lines(plain_item(5)))
    with pytest.raises(UserError, match=f":2: {message}"):
        reader(log)


def test_unknown_and_missing_fields_are_named(log: Path) -> None:
    item = msgspec.to_builtins(plain_item(0))
    del item["gold"]
    log.write_bytes(lines(plain_run()) + msgspec.json.encode(item) + b"\n")
    with pytest.raises(UserError, match=":2: gold: missing"):
        read_log(log)
    log.write_bytes(lines(plain_run()) + msgspec.json.encode({**item, "gold": "", "mood": 1}) + b"\n")
    with pytest.raises(UserError, match=":2: mood: unknown field"):
        read_log(log)


NOT_OURS = {
    "empty": (b"", "empty"),
    "text": (b"once upon a time\n", "not a bcrbench log: first line 'once upon"),
    "text without a newline": (b"once", "not a bcrbench log"),
    "binary": (b"\xff\xfe\x00\n{}\n", "not a bcrbench log"),
    "brackets": (b"[" * 5000 + b"\n", "not a bcrbench log"),
    "another JSON": (b'{"a": 1}\n', "not a bcrbench log"),
    "an item first": (lines(plain_item(0)), "not a bcrbench log"),
    "a newer schema": (lines(plain_run(schema_version=4)), "schema_version: 4 was written by a newer bcrbench"),
    "a schema of none": (lines(plain_run(schema_version=0)), "schema_version: 0, expected a whole number"),
    "a newer schema with new fields": (
        b'{"record":"run","schema_version":7,"x":1}\n',
        "schema_version: 7 was written by a newer bcrbench",
    ),
    "two runs": (lines(plain_run(), plain_run()), ":2: record: a second run record"),
    "an item after the end": (lines(*WHOLE, plain_item(3)), ":7: record: an item after the end record"),
    "two ends": (lines(*WHOLE, END), ":7: record: a second end record"),
    "an index twice": (lines(plain_run(), plain_item(0), plain_item(0, id="q")), ":3: index: 0 is on line 2 too"),
    "an id twice": (lines(plain_run(), plain_item(0), plain_item(1, id="q0")), ":3: id: 'q0' is on line 2 too"),
    "an item lost before the end": (lines(*WHOLE[:2], END), ":3: items: 3, expected 1"),
    "a gap in a stateful run": (
        lines(plain_run(stateful=True), plain_item(0), plain_item(2)),
        "index: 1 is missing",
    ),
}


@pytest.mark.parametrize(("data", "message"), NOT_OURS.values(), ids=list(NOT_OURS))
@pytest.mark.parametrize("reader", [read_log, read_outcomes])
def test_what_is_not_a_sound_log_is_refused(log: Path, reader: Any, data: bytes, message: str) -> None:
    log.write_bytes(data)
    with pytest.raises(UserError) as error:
        reader(log)
    assert message in str(error.value) and str(log) in str(error.value) and "expected" in str(error.value)


def test_missing_files_and_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_log(tmp_path / "none.jsonl")
    with pytest.raises(UserError, match="directory"):
        read_outcomes(tmp_path)


def test_items_come_in_index_order_whatever_their_order_in_the_file(log: Path) -> None:
    write(log, plain_run(), plain_item(2), plain_item(0), plain_item(1))
    assert [item.index for item in read_log(log).items] == [0, 1, 2]


@given(first=st.text(max_size=20), second=st.text(max_size=20))
def test_file_names_are_safe_and_differ_when_conditions_do(first: str, second: str) -> None:
    assert unquote(safe(first).replace("+", ":")) == first
    assert (safe(first) == safe(second)) == (first == second)
    assert not set(safe(first)) & set('/\\:*?"<>| \0\n')


def test_file_names_stay_readable_and_short() -> None:
    name = log_name("gsm8k", "kvcomm:gamma=0.3,frame=canonical", 3, "0a1b2c3d")
    assert name == "gsm8k.kvcomm+gamma=0.3,frame=canonical.3a.0a1b2c3d.jsonl"
    assert len(log_name("gsm8k", "ü" * 500, 3, "0a1b2c3d").encode()) < 255


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/urandom", "/dev/null"])
def test_what_has_no_end_is_not_read_to_its_end(device: str) -> None:
    if not Path(device).exists():
        pytest.skip(f"no {device} here")
    with pytest.raises(UserError, match=device) as error:
        read_outcomes(device)
    assert "\n" not in str(error.value)


def test_a_pipe_is_read_like_a_file(log: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    write(log, *WHOLE)
    assert through(pipe, log.read_bytes()).items == read_outcomes(log).items
    with pytest.raises(UserError, match="not a bcrbench log"):
        through(pipe, b"\x89PNG" * 100_000)


def through(pipe: Path, content: bytes) -> Any:
    def feed() -> None:
        with suppress(BrokenPipeError), pipe.open("wb") as file:
            file.write(content)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        return read_outcomes(pipe)
    finally:
        feeder.join()
