"""Every check passes on each architecture, says what it looked at, and can be asked for by name."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from verify_runs import BRIEF, Verified, save_small_model, verified

from bcrbench.cli.main import main
from bcrbench.verify import CHECKS, wanted

TINY = ["--model", "random:tiny", *BRIEF]


@pytest.mark.parametrize("name", ["llama3", "qwen2", "qwen3"])
def test_all_checks_pass_on_a_saved_model(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = verified(capsys, "--model", save_small_model(name, tmp_path), *BRIEF)
    assert made.failed() == [], made.findings
    assert made.code == 0
    assert list(made.findings) == wanted([])


@pytest.fixture(scope="module")
def tiny() -> Verified:
    """One full run on the random Llama."""
    with redirect_stdout(StringIO()) as out, pytest.raises(SystemExit) as stop:
        main(["verify", *TINY, "--format", "json"])
    findings = {finding["name"]: finding for finding in json.loads(out.getvalue())}
    return Verified(int(stop.value.code or 0), findings, "")


def test_all_checks_pass_on_a_random_llama(tiny: Verified) -> None:
    assert tiny.failed() == []
    assert tiny.code == 0


def test_every_finding_has_a_number_an_expectation_and_a_source(tiny: Verified) -> None:
    for finding in tiny.findings.values():
        assert isinstance(finding["number"], (int, float)), finding
        assert all(finding[key] for key in ("unit", "expected", "detail", "source")), finding
        assert "\n" not in finding["detail"]


def test_checks_looked_at_reused_calls(tiny: Verified) -> None:
    assert " 0 calls reused" not in tiny.findings["no-repair"]["detail"]
    assert "of 0" not in tiny.findings["full-repair"]["detail"]
    assert not tiny.findings["draft"]["detail"].startswith("0 drafts")
    assert tiny.findings["engaged"]["number"] > 0


def test_only_the_named_checks_are_made_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    made = verified(capsys, *TINY, "--only", "greedy,mask")
    assert made.failed() == []
    assert list(made.findings) == ["mask", "greedy"]


def test_a_line_a_check_and_the_state_first(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["verify", *TINY, "--only", "rotation,mask"])
    lines = capsys.readouterr().out.splitlines()
    assert stop.value.code == 0
    assert [line.split()[:2] for line in lines] == [["pass", "rotation"], ["pass", "mask"]]


def test_an_unknown_check_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    made = verified(capsys, "--only", "mask,full-repiar")
    assert made.code == 2
    assert "unknown check 'full-repiar' (did you mean 'full-repair'?)" in made.err
    assert made.err.count("\n") == 1


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_half_precision_passes_within_its_own_bounds(half: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = verified(capsys, *TINY, "--dtype", half, "--only", "rotation,mask,full-repair,greedy")
    assert made.failed() == [], made.findings


def test_repeat_runs_the_condition_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    made = verified(capsys, *TINY, "--repeat", "bcr-single:select=coin,seed=3,gamma=1.0")
    assert list(made.findings) == ["repeat"]
    assert made.code == 0
    assert "bcr-single:gamma=1.0,select=coin,seed=3" in made.findings["repeat"]["detail"]


def test_too_few_items_to_reuse_anything_are_not_green(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["gate", "theta-zero", "no-repair", "draft", "engaged", "full-repair"]
    made = verified(capsys, *TINY, "--limit", "2", "--only", ",".join(names))
    assert made.code == 1
    assert made.failed() == names
    told = {name: made.findings[name]["detail"] for name in names}
    assert [name for name in names if "--limit" not in told[name]] == ["engaged"]
    assert "0 of 4 calls reused" in told["engaged"]


def test_a_dry_run_names_the_checks_and_makes_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bcrbench.sweep.execute.load", None)
    with pytest.raises(SystemExit) as stop:
        main(["verify", *TINY, "--dry-run", "--only", "mask"])
    assert stop.value.code == 0
    assert "checks: mask" in capsys.readouterr().out


def test_every_check_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "verify.md").read_text(encoding="utf-8")
    assert [name for name in CHECKS.names() if f"| `{name}` |" not in text] == []
