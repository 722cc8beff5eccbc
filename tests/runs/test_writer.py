"""Writing logs: one writer, whole lines, on the disk, nothing left half done."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from arbitrary import lines, plain_item, plain_run

from bcrbench.errors import RunFailed, UserError
from bcrbench.runs.log import LogWriter, ensure_writable, read_log, repair_tail
from bcrbench.runs.schema import EndRecord, GradeRecord

ROOT = Path(__file__).parents[2]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "x.jsonl"


def end(status: str, items: int) -> EndRecord:
    return EndRecord(status=status, items=items, correct=0, calls=0, reused=0, new_tokens=0, wall_s=0.0)  # type: ignore[arg-type]


def test_a_second_writer_in_this_process_is_refused(log: Path) -> None:
    with LogWriter(log), pytest.raises(UserError, match=f"is being written by process {os.getpid()}"):
        LogWriter(log)
    LogWriter(log).close()


def test_a_second_process_is_refused_and_a_killed_one_does_not_block(log: Path) -> None:
    code = (
        "import sys; from bcrbench.runs.log import LogWriter; w = LogWriter(sys.argv[1]); print('held', flush=True);"
        "sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(log)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout and holder.stdout.readline() == "held\n"
    with pytest.raises(UserError, match=f"{log}: is being written by process {holder.pid}, expected one writer"):
        LogWriter(log)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with LogWriter(log) as writer:
        writer.append(plain_run())
    assert not log.with_name("x.jsonl.lock").exists()


def test_nothing_is_left_behind_before_the_first_record(log: Path) -> None:
    with LogWriter(log) as writer:
        assert writer.fresh and not log.exists()
    assert list(log.parent.iterdir()) == []


def test_appending_continues_a_log_and_cuts_its_torn_tail(log: Path) -> None:
    log.write_bytes(lines(plain_run(), plain_item(0)) + b'{"record":"it')
    with LogWriter(log) as writer:
        assert (writer.cut, writer.fresh) == (13, False)
        writer.append(plain_item(1))
    read = read_log(log)
    assert [item.index for item in read.items] == [0, 1] and not read.torn


def test_a_torn_first_line_makes_the_log_fresh_again(log: Path) -> None:
    log.write_bytes(lines(plain_run())[:-20])
    with LogWriter(log) as writer:
        assert writer.fresh
        writer.append(plain_run())
    assert read_log(log).items == []


@pytest.mark.parametrize("text", ["dear diary", "dear diary\nno newline here"])
def test_a_file_that_is_not_ours_is_never_cut(log: Path, text: str) -> None:
    log.write_text(text)
    with pytest.raises(UserError, match="not a bcrbench log"):
        repair_tail(log)
    with pytest.raises(UserError, match="not a bcrbench log"):
        LogWriter(log)
    assert log.read_text() == text
    assert not log.with_name("x.jsonl.lock").exists()


def test_short_writes_still_give_whole_lines(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data[:7])))
    with LogWriter(log) as writer:
        writer.append(plain_run())
        writer.append(plain_item(0))
    monkeypatch.undo()
    assert read_log(log).items == [plain_item(0)]


def test_a_full_disk_leaves_the_log_as_it_was(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, budget = os.write, [40]

    def shrinking(fd: int, data: bytes) -> int:
        if budget[0] <= 0:
            raise OSError(28, "No space left on device")
        done = write(fd, bytes(data[: budget[0]]))
        budget[0] -= done
        return done

    with LogWriter(log) as writer:
        writer.append(plain_run())
        before = log.read_bytes()
        monkeypatch.setattr(os, "write", shrinking)
        with pytest.raises(RunFailed, match="No space left on device"):
            writer.append(plain_item(0))
        monkeypatch.undo()
        assert log.read_bytes() == before
        writer.append(plain_item(0))
    assert read_log(log).items == [plain_item(0)]


def test_each_append_is_one_write_and_is_synced(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[bytes] = []
    synced: list[int] = []
    write, fsync = os.write, os.fsync

    def noted_write(fd: int, data: bytes) -> int:
        writes.append(bytes(data))
        return write(fd, data)

    def noted_fsync(fd: int) -> None:
        synced.append(len(writes))
        fsync(fd)

    monkeypatch.setattr(os, "write", noted_write)
    monkeypatch.setattr(os, "fsync", noted_fsync)
    with LogWriter(log) as writer:
        writer.append(plain_run())
        writer.append(plain_item(0))
    assert writes == [lines(plain_run()), lines(plain_item(0))]
    assert synced == [0, 1, 2]  # the directory once, before the first line; then each line


def test_a_record_that_cannot_be_read_back_is_refused(log: Path) -> None:
    with LogWriter(log) as writer:
        writer.append(plain_run())
        with pytest.raises(ValueError, match="wall_s: expected `float`, got `null`"):
            writer.append(plain_item(0, wall_s=float("nan")))
    assert read_log(log).items == []


def test_reopening_takes_an_early_end_out_and_keeps_grades(log: Path) -> None:
    grade = GradeRecord(id="q0", grader="strict", grader_version=1, prediction="4", outcome="correct")
    log.write_bytes(lines(plain_run(), plain_item(0), end("cancelled", 1), grade))
    with LogWriter(log, reopen=True) as writer:
        writer.append(plain_item(1))
        writer.append(end("complete", 2))
    read = read_log(log)
    assert [item.index for item in read.items] == [0, 1]
    assert (read.status, read.grades) == ("complete", [grade])
    with pytest.raises(UserError, match="the run is complete"):
        LogWriter(log, reopen=True)


def test_directories_are_checked_without_a_trace_and_made_by_the_first_log(tmp_path: Path) -> None:
    ensure_writable(tmp_path / "a" / "b")
    ensure_writable(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with LogWriter(tmp_path / "a" / "b" / "x.jsonl"):
        assert (tmp_path / "a" / "b").is_dir()


def test_a_directory_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "astray").symlink_to(tmp_path / "nowhere")
    for path in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "astray"):
        with pytest.raises(UserError, match="is a file, expected a directory"):
            ensure_writable(path)
        with pytest.raises(UserError, match="cannot be made"):
            LogWriter(path / "x.jsonl")
    with pytest.raises(UserError, match="cannot be written"):
        ensure_writable("/proc/nowhere")


def test_a_first_record_that_the_disk_refuses_leaves_no_file(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", _full)
    with LogWriter(log) as writer, pytest.raises(RunFailed, match="No space left"):
        writer.append(plain_run())
    assert list(log.parent.iterdir()) == []


def test_a_full_disk_keeps_an_early_end_and_leaves_no_second_file(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = lines(plain_run(), plain_item(0), end("failed", 1))
    log.write_bytes(before)
    monkeypatch.setattr(os, "fsync", _full)
    with pytest.raises(RunFailed, match="x.jsonl: cannot be written .No space left"):
        LogWriter(log, reopen=True)
    assert log.read_bytes() == before
    assert list(log.parent.iterdir()) == [log]


def _full(*_: object) -> int:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("gone", ["file", "folder", "replaced file", "folder made a file"])
def test_a_log_that_was_taken_away_stops_the_run(tmp_path: Path, gone: str) -> None:
    folder = tmp_path / "runs"
    log = folder / "x.jsonl"
    with LogWriter(log) as writer:
        writer.append(plain_run())
        if "folder" in gone:
            shutil.rmtree(folder)
        else:
            log.unlink()
        if gone == "folder made a file":
            folder.write_text("")
        elif gone == "replaced file":
            log.write_text("another's")
        with pytest.raises(RunFailed, match="x.jsonl: was removed or replaced"):
            writer.append(plain_item(0))
    if gone == "replaced file":
        assert log.read_text() == "another's"


def test_a_lock_holds_on_a_full_disk(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwrite", _full)
    with LogWriter(log), pytest.raises(UserError, match="is being written by another process"):
        LogWriter(log)
