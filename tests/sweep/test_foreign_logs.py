"""A log that lies where a run's log belongs and is not that run's, or no longer fits it, is refused and kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import pytest

from bcrbench.cli.main import main

RUN = ["prefill", "--model", "random:tiny", "--agents", "1", "--limit", "2", "--max-new-tokens", "2", "--out"]


def _run(folder: Path) -> int:
    with pytest.raises(SystemExit) as stop:
        main([*RUN, str(folder)])
    return int(stop.value.code or 0)


def _edit(path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> bytes:
    records = change([json.loads(line) for line in path.read_bytes().splitlines()])
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path.read_bytes()


def test_another_runs_log_under_this_runs_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path) == 0
    (path,) = tmp_path.glob("*.jsonl")
    before = _edit(path, lambda records: [{**records[0], "fingerprint": "0" * 16}, *records[1:]])
    capsys.readouterr()
    assert _run(tmp_path) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "'dense' with fingerprint 0000000000000000, expected" in err
    assert path.read_bytes() == before


def test_a_log_with_more_items_than_the_run_is_not_continued(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tmp_path) == 0
    (path,) = tmp_path.glob("*.jsonl")

    def one_more(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [*records[:-1], {**records[1], "index": 2, "id": "another"}]

    _edit(path, one_more)
    assert _run(tmp_path) == 1
    assert "holds 3 items, expected 2" in capsys.readouterr().err
