"""What a model cannot do is said in a line: positions it was not trained for, memory that is not there, no numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from small_models import twins

from bcrbench.cli.main import main
from bcrbench.engine.decode import greedy, most_likely
from bcrbench.engine.model import memory_told
from bcrbench.errors import RunFailed
from bcrbench.runs.log import read_log

RUNTIME = twins("llama").runtime  # 4,096 positions


@pytest.mark.parametrize(
    ("rows", "limit", "room"), [(1, 9, 9), (4087, 9, 9), (4088, 9, 9), (4089, 9, 8), (4096, 9, 1), (1, 10**30, 4096)]
)
def test_a_generation_ends_where_the_models_positions_do(rows: int, limit: int, room: int) -> None:
    assert RUNTIME.room(rows, limit) == room


def test_a_prompt_beyond_the_models_positions_is_refused() -> None:
    with pytest.raises(RunFailed, match="prompt of 4097 tokens, expected at most 4096"):
        RUNTIME.room(4097, 1)


def _too_long(tmp_path: Path, condition: str) -> list[str]:
    """The command line of a run whose second question is longer than the model's positions."""
    data = tmp_path / "data.jsonl"
    questions = ["two and two?", "?" * 40_000]
    data.write_text("".join(json.dumps({"question": text, "answer": "#### 4"}) + "\n" for text in questions))
    return ["sweep", "--model", "random:tiny", "--task", "gsm8k", "--data", str(data), "--agents", "1",
            "--max-new-tokens", "2", "--conditions", condition, "--out", str(tmp_path / "runs")]  # fmt: skip


@pytest.mark.parametrize("condition", ["dense", "kvcomm:gamma=1.0"])
def test_an_item_that_cannot_fit_is_told_before_anything_is_generated(
    condition: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(_too_long(tmp_path, condition))
    assert stop.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    for word in ("item 'gsm8k-0001'", "has 4", "tokens or more", "expected at most 32768", "'random:tiny'"):
        assert word in last
    assert list((tmp_path / "runs").glob("*")) == []


@pytest.mark.parametrize("condition", ["dense", "kvcomm:gamma=1.0"])
def test_a_prompt_that_grows_too_long_ends_the_run_and_keeps_the_items_before(
    condition: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Responses count too, and nobody knows them beforehand; here the look beforehand is left out to get there."""
    monkeypatch.setattr("bcrbench.sweep.execute.check_prompts", lambda *known: None)
    with pytest.raises(SystemExit) as stop:
        main(_too_long(tmp_path, condition))
    assert stop.value.code == 1
    last = capsys.readouterr().err.splitlines()[-1]
    for word in ("item 1 (gsm8k-0001)", "prompt of 4", "expected at most 32768", "'random:tiny'"):
        assert word in last
    (path,) = (tmp_path / "runs").glob("*.jsonl")
    log = read_log(path)
    assert (log.status, len(log.items)) == ("failed", 1)


def test_a_template_beyond_the_models_positions_is_refused_before_anything_is_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = tmp_path / "prompts.yaml"
    prompts.write_text(
        f'name: x\nversion: 1\nquestion_prefix: ""\nworkers:\n  - {{role: w, system: "{"s" * 40_000}", user: '
        '"{question} end"}\ndecision: {role: d, system: s, user: "{question} end"}\npeer: "a {output} b"\n'
    )
    with pytest.raises(SystemExit) as stop:
        main(["reuse", "--model", "random:tiny", "--agents", "1", "--limit", "1", "--prompts", str(prompts),
              "--out", str(tmp_path / "runs")])  # fmt: skip
    assert stop.value.code == 2
    assert "expected at most 32768" in capsys.readouterr().err
    assert list((tmp_path / "runs").glob("*")) == []


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_are_no_answer(bad: float) -> None:
    logits = torch.tensor([0.5, bad, 1.0])
    with pytest.raises(RunFailed, match="expected finite ones"):
        most_likely(logits)
    assert most_likely(torch.tensor([0.5, -float("inf"), 1.0])) == 2


@pytest.mark.parametrize("begun", [1, 2, 5])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_more_tokens_than_asked_for_even_where_more_were_begun(begun: int, limit: int) -> None:
    cache = RUNTIME.new_cache(16)
    RUNTIME.run(list(range(8)), range(8), cache)
    made = greedy(RUNTIME, cache, list(range(10, 10 + begun)), 8 - begun + 1, limit)
    assert len(made.ids) == limit
    assert made.ids[:begun] == list(range(10, 10 + begun))[:limit]


def test_running_out_of_memory_is_told_and_other_errors_are_not_taken_for_it() -> None:
    with pytest.raises(RunFailed, match="out of memory making it"), memory_told("making it"):
        torch.empty(2**58)
    with pytest.raises(RunFailed, match="out of memory making it"), memory_told("making it"):
        raise torch.OutOfMemoryError("CUDA out of memory")
    with pytest.raises(RuntimeError, match="size"), memory_told("making it"):
        torch.ones(2) @ torch.ones(3)
