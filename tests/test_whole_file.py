"""Files for a person: whole or as they were, links kept, and nothing that is no file written over."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from bcrbench.errors import UserError
from bcrbench.whole_file import write_whole


def test_a_file_is_written_and_written_again(tmp_path: Path) -> None:
    for content in (b"one", b"two"):
        write_whole(tmp_path / "new" / "a", content, "--save")
        assert (tmp_path / "new" / "a").read_bytes() == content
    assert os.listdir(tmp_path / "new") == ["a"]


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"new", "--html")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_what_is_no_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "to-pipe").symlink_to(pipe)
    for path in (pipe, tmp_path / "to-pipe", tmp_path):
        with pytest.raises(UserError, match="--html .*expected a file"):
            write_whole(path, b"new", "--html")
    assert stat.S_ISFIFO(os.lstat(pipe).st_mode)
    assert sorted(os.listdir(tmp_path)) == ["pipe", "to-pipe"]


def test_a_full_disk_leaves_the_old_file_and_nothing_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    target = tmp_path / "a"
    target.write_bytes(b"old")
    monkeypatch.setattr("bcrbench.whole_file.os.replace", full)
    with pytest.raises(UserError, match="--save .*No space left on device"):
        write_whole(target, b"new", "--save")
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]
