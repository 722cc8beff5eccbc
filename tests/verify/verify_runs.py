"""`bcrbench verify` in this process: its exit code, its findings and what it printed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import build, config_of

from bcrbench.cli.main import main
from bcrbench.engine.attention import NAME
from bcrbench.engine.byte_tokenizer import byte_tokenizer

# Two agents, few items, few tokens: enough that calls are reused, little enough for one core.
BRIEF = ["--agents", "1", "--limit", "4", "--max-new-tokens", "6"]


@dataclass(frozen=True)
class Verified:
    """What came of one verify command."""

    code: int
    findings: dict[str, dict[str, Any]]
    err: str

    def failed(self) -> list[str]:
        return [name for name, finding in self.findings.items() if not finding["passed"]]


def verified(capsys: pytest.CaptureFixture[str], *args: str) -> Verified:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(["verify", *args, "--format", "json"])
    out, err = capsys.readouterr()
    findings = {finding["name"]: finding for finding in json.loads(out)} if out else {}
    return Verified(int(stop.value.code or 0), findings, err)


def save_small_model(name: str, folder: Path) -> str:
    """A two-layer random model of an architecture with the byte tokenizer, as a folder that `--model` takes."""
    model = build(config_of(name), NAME, torch.float32)
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)
