"""A sweep goes on without a run that is refused for its own files; a command with that run alone is a mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bcrbench.cli.main import main
from bcrbench.runs.lock import WriteLock

GATE, BLEND = "kvcomm:gamma=0.5", "cacheblend:gamma=1.0,match=reuse:bcr-chunk:gamma=1.0+B=8"
OTHERS = ("kvcomm:gamma=0.3", "kvcomm:gamma=0.7")


def swept(out: Path, *conditions: str) -> int:
    """The exit code of a sweep of two items."""
    options = [word for text in conditions for word in ("--conditions", text)]
    with pytest.raises(SystemExit) as stop:
        main(["sweep", *options, "--limit", "2", "--out", str(out)])
        raise SystemExit(0)
    return int(stop.value.code or 0)


def log_of(out: Path, text: str) -> Path:
    [found] = out.glob(f"*.{text.replace(':', '+')}.*.jsonl")
    return found


def held(out: Path) -> None:
    assert swept(out, GATE) == 0
    HELD.append(WriteLock(log_of(out, GATE)))


def damaged(out: Path) -> None:
    assert swept(out, GATE) == 0
    path = log_of(out, GATE)
    path.write_text(path.read_text().replace('"record":"item"', '"record":"itm"'))


def another(out: Path) -> None:
    assert swept(out, GATE, "dense") == 0
    log_of(out, GATE).write_bytes(log_of(out, "dense").read_bytes())


def unmade(out: Path) -> None:
    """Nobody makes what BLEND is matched to."""


HELD: list[WriteLock] = []


@pytest.mark.parametrize(
    ("spoil", "refused"),
    [(held, GATE), (damaged, GATE), (another, GATE), (unmade, BLEND)],
)
def test_a_refused_run_does_not_stop_the_rest(
    spoil: Callable[[Path], None], refused: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(tmp_path)
    try:
        capsys.readouterr()
        assert swept(tmp_path, *OTHERS, refused, "opengate:theta=0.5") == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert "1 of 4 runs failed" in last and refused in last
        for text in (*OTHERS, "opengate:theta=0.5"):
            assert '"status":"complete"' in log_of(tmp_path, text).read_text().splitlines()[-1]
        assert swept(tmp_path, refused) == 2
    finally:
        while HELD:
            HELD.pop().release()
