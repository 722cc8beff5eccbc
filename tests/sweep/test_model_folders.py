"""What a model's folder holds besides weights counts: another configuration is another run, a bad template is none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import bcrbench
from bcrbench.cli.main import main

BUNDLED = Path(bcrbench.__file__).parent / "bundled" / "model"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    shutil.copytree(BUNDLED, folder)
    return folder


def _run(model: Path, out: Path) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["prefill", "--agents", "1", "--limit", "1", "--max-new-tokens", "2",
              "--model", str(model), "--out", str(out)])  # fmt: skip
    return int(stop.value.code or 0)


def _change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("config.json", {"rms_norm_eps": 1e-3}),
        ("config.json", {"rope_parameters": {"rope_type": "default", "rope_theta": 77.0}}),
        ("config.json", {"max_position_embeddings": 400}),
        ("generation_config.json", {"eos_token_id": 1}),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else value,
)
def test_another_configuration_of_the_same_weights_is_another_run(
    model: Path, tmp_path: Path, file: str, values: dict[str, Any]
) -> None:
    out = tmp_path / "runs"
    assert _run(model, out) == 0
    _change(model / file, **values)
    assert _run(model, out) == 0
    assert len(list(out.glob("*.jsonl"))) == 2


def test_the_same_model_under_another_name_is_the_same_run(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    assert _run(model, out) == 0
    assert _run(model.rename(tmp_path / "moved"), out) == 0
    assert len(list(out.glob("*.jsonl"))) == 1


@pytest.mark.parametrize("template", [None, "{% for x in %}", "hello"])
def test_a_template_that_cannot_serve_is_one_line_and_nothing_is_written(
    model: Path, tmp_path: Path, template: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = model / "chat_template.jinja"
    path.unlink() if template is None else path.write_text(template)
    assert _run(model, tmp_path / "runs") == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "chat template" in err
    assert not (tmp_path / "runs").exists()
