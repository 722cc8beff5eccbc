"""The token tax: where merged and whole ids part is named, with segments, ids and texts; only texts may fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from verify_runs import BRIEF, save_small_model, verified

from bcrbench.cli.main import main
from bcrbench.engine.byte_tokenizer import byte_tokenizer
from bcrbench.tasks.quotes import Quotes


@pytest.fixture(scope="module")
def merging(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model whose tokenizer has one merge: a question's full stop with the blank that stands after it."""
    folder = tmp_path_factory.mktemp("models") / "merging"
    save_small_model("llama", folder)
    path = folder / "tokenizer.json"
    text = json.loads(path.read_text(encoding="utf-8"))
    text["model"]["vocab"][".Ġ"] = 300
    text["model"]["merges"] = [[".", "Ġ"]]
    path.write_text(json.dumps(text), encoding="utf-8")
    return str(folder)


@pytest.fixture
def orders(tmp_path: Path) -> list[str]:
    lines = [f'{{"question": "{word} cups.", "answer": "#### 3"}}\n' for word in ("two", "three", "seventeen", "six")]
    (tmp_path / "items.jsonl").write_text("".join(lines), encoding="utf-8")
    return ["--task", "gsm8k", "--data", str(tmp_path / "items.jsonl")]


def _prompts(folder: Path) -> list[str]:
    """A prompt set in which a blank follows every question."""
    path = folder / "prompts.yaml"
    path.write_text(
        'name: blank\nversion: 1\nquestion_prefix: ""\npeer: "\\nsaid: {output} and that is all\\n"\n'
        'workers:\n  - {role: worker, system: s, user: "Q: {question} end"}\n'
        'decision: {role: decider, system: s, user: "Q: {question} end"}\n',
        encoding="utf-8",
    )
    return ["--prompts", str(path)]


def test_the_first_boundary_is_named(
    merging: str, orders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = verified(capsys, "--model", merging, *orders, *_prompts(tmp_path), "--agents", "1", "--tokens")
    found = made.findings["tokens"]
    assert made.code == 0
    assert found["state"] == "differs"
    assert found["number"] == 0
    assert "dense:tokens=merged" in found["detail"]
    assert "only agent 1 is exact" in found["detail"]
    assert "agent 1: 0 of 4 prompts have the same ids" in found["more"][0]
    dot = byte_tokenizer().encode(".")[0]
    blank = byte_tokenizer().encode(" ")[0]
    assert f"question|fixed_1: merged [{dot} '.', {blank} ' '], whole [300 '. ']" in found["more"][0]


def test_a_run_tells_the_same_and_shows_what_numerics_leave(
    merging: str, orders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["--model", merging, *orders, *_prompts(tmp_path), *BRIEF, "--only", "tokens,placebo"]
    made = verified(capsys, *args)
    assert made.code == 0
    assert made.findings["tokens"]["state"] == "differs"
    assert "question|fixed_1" in made.findings["tokens"]["more"][0]
    assert "against dense:tokens=merged: " in made.findings["placebo"]["detail"]


def test_tokens_alone_load_no_weights(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bcrbench.sweep.execute.load", None)
    made = verified(capsys, "--model", "random:tiny", "--tokens", "--limit", "7")
    assert made.code == 0
    assert made.findings["tokens"]["number"] == 100
    assert made.findings["tokens"]["more"][0].startswith("agent 1: 7 of 7 ")


def test_tokens_take_all_items_unless_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["verify", "--model", "random:tiny", "--agents", "1", "--tokens", "--data", "goods=2"])
    total = len(Quotes().items("goods=2"))
    assert f"agent 1: {total} of {total} " in capsys.readouterr().out
