"""Bad input gets exit code 2, one line with the thing, the value and what was expected, and nothing is written.

Each case is a command line and the words that its line must hold. `OUT` stands for a run directory that must not exist
afterwards; models are `random:tiny`, so that nothing is read but what a case gives.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bcrbench.cli.main import main

SWEEP = ["sweep", "--out", "OUT"]
TINY = ["sweep", "--model", "random:tiny", "--limit", "1", "--out", "OUT"]
GSM8K = ["sweep", "--model", "random:tiny", "--task", "gsm8k", "--out", "OUT"]


def _run(args: list[str], folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The one line that a wrong command leaves; fails when it leaves anything else."""
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    with pytest.raises(SystemExit) as stop:
        main(args)
    out, err = capsys.readouterr()
    assert stop.value.code == 2, err
    assert out == ""
    assert err.startswith("bcrbench: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    assert sorted(folder.rglob("*")) == before, "something was written"
    return err


NAMES = [
    ([*SWEEP, "--task", "qoutes"], ["task", "'qoutes'", "'quotes'", "gsm8k"]),
    ([*SWEEP, "--model", "bundeld"], ["model", "'bundeld'", "'bundled'", "random:"]),
    ([*SWEEP, "--model", "random:tyni"], ["shape", "'tyni'", "'tiny'", "qwen2.5-7b"]),
    ([*SWEEP, "--model", "a/b/c"], ["model", "'a/b/c'", "expected"]),
    ([*SWEEP, "--model", "."], ["model", "'.'", "config.json"]),
    ([*SWEEP, "--model", "plain"], ["model", "'plain'", "expected a .gguf file"]),
    ([*SWEEP, "--conditions", "kvcom"], ["condition", "'kvcom'", "'kvcomm'", "dense"]),
    ([*SWEEP, "--conditions", ""], ["condition", "''", "dense"]),
    ([*SWEEP, "--conditions", "kvcomm:gama=1"], ["parameter", "'gama'", "'gamma'", "frame"]),
    ([*SWEEP, "--conditions", "kvcomm:gamma"], ["'gamma'", "expected key=value"]),
    ([*SWEEP, "--conditions", "kvcomm:gamma=0.3,gamma=0.5"], ["gamma", "twice"]),
    (["reuse", "--frame", "canonicl", "--out", "OUT"], ["frame=canonicl", "canonical"]),
    (["reuse", "--base", "heder", "--out", "OUT"], ["base=heder", "header"]),
    (["prefill", "--tokens", "mergd", "--out", "OUT"], ["--tokens", "'mergd'", "'merged'"]),
    ([*SWEEP, "--roles", "pin:noth clerk"], ["role", "'noth clerk'", "'north clerk'"]),
    ([*SWEEP, "--roles", "cylce"], ["--roles", "'cylce'", "cycle", "pin:"]),
    ([*SWEEP, "--topology", "ful"], ["topology", "'ful'", "'full'", "star"]),
    ([*SWEEP, "--grader", "quotes-totl"], ["grader", "'quotes-totl'", "'quotes-total'"]),
    ([*SWEEP, "--ids", "q9999"], ["id", "'q9999'", "q0001"]),
    (["sweep", "tabel3", "--out", "OUT"], ["recipe", "'tabel3'", "'table3'", "demo"]),
    (["sweep", "nofile.yaml", "--out", "OUT"], ["recipe", "nofile.yaml", "No such file"]),
    (["sweep", "", "--out", "OUT"], ["recipe", "''", "demo"]),
    (["sweep", "\udcff", "--out", "OUT"], ["recipe", "UTF-8"]),
    (["prefill", "--out", "\udcff"], ["out=", "UTF-8"]),
    ([*SWEEP, "--model", "x" * 9000], ["model", "xxx"]),
    ([*SWEEP, "--conditions", "random:match=reuse:\udcff"], ["condition", "UTF-8"]),
    ([*SWEEP, "--ids", "q0001, q9999 ,q0001"], ["id", "'q9999'"]),
    (["stats", "x" * 9000], ["xxx", "File name too long", "expected a run log"]),
    (["grade", "x" * 9000, "--list"], ["xxx", "File name too long", "expected a run log"]),
    (["swep"], ["command", "'swep'", "'sweep'", "stats"]),
    ([*SWEEP, "--gama", "1"], ["option", "--gama", "--gamma"]),
    ([*SWEEP, "demo", "demo"], ["argument", "demo"]),
    ([*TINY, "--dtype", "flaot32"], ["dtype", "'flaot32'", "'float32'", "bfloat16"]),
    ([*TINY, "--device", "gpu"], ["--device", "'gpu'", "cuda"]),
    ([*TINY, "--device", "cuda:77"], ["--device", "'cuda:77'"]),
    ([*TINY, "--kernel", "tlies"], ["kernel", "'tlies'", "'tiles'", "sdpa"]),
    ([*TINY, "--kernel", "flex", "--device", "cpu"], ["--kernel", "'flex'", "CUDA"]),
    (["stats", "nofile.jsonl"], ["nofile.jsonl", "No such file", "expected a run log"]),
    (["stats", "plain.jsonl"], ["plain.jsonl", "not a bcrbench log", "expected a run record"]),
    (["stats", "plain.jsonl", "--format", "tabel"], ["--format", "'tabel'", "table"]),
    (["verify", "--only", "maks"], ["check", "'maks'", "'mask'", "full-repair"]),
    (["verify", "--only", ""], ["check", "''", "placebo"]),
    (["verify", "--repeat", "kvcom"], ["condition", "'kvcom'", "'kvcomm'"]),
    (["verify", "--tokens", "--model", "bundeld"], ["model", "'bundeld'", "'bundled'"]),
    (["grade", "plain.jsonl", "--grader", "strict"], ["plain.jsonl", "not a bcrbench log"]),
]

NUMBERS = [
    ([*SWEEP, "--gamma", "1.5"], ["gamma=1.5", "0.0 to 1.0"]),
    ([*SWEEP, "--gamma=-1"], ["gamma=-1", "0.0 to 1.0"]),
    ([*SWEEP, "--gamma", "abc"], ["gamma=abc", "a number"]),
    ([*SWEEP, "--gamma", "nan"], ["gamma=nan", "0.0 to 1.0"]),
    ([*SWEEP, "--gamma", "0.3,inf"], ["gamma=inf", "0.0 to 1.0"]),
    ([*SWEEP, "--gamma", "0.3,,1"], ["--gamma '0.3,,1'", "an empty value", "expected G,G"]),
    (["reuse", "--gamma", "nan", "--out", "OUT"], ["gamma=nan", "0.0 to 1.0"]),
    (["reuse", "--gamma", "1.01", "--out", "OUT"], ["gamma=1.01", "0.0 to 1.0"]),
    (["reuse", "--gamma", "abc", "--out", "OUT"], ["--gamma", "'abc'", "float"]),
    ([*SWEEP, "--agents", "0"], ["agents=0", ">= 1"]),
    ([*SWEEP, "--agents", "6"], ["agents=6", "<= 5"]),
    ([*SWEEP, "--agents", "x"], ["--agents", "'x'", "whole numbers"]),
    ([*SWEEP, "--limit", "0"], ["limit=0", ">= 1"]),
    ([*SWEEP, "--limit", "-1"], ["limit=-1", ">= 1"]),
    ([*SWEEP, "--limit", "1.5"], ["--limit", "'1.5'", "integer"]),
    ([*SWEEP, "--seed", "-1"], ["seed=-1", ">= 0"]),
    ([*SWEEP, "--threads", "0"], ["threads=0", ">= 1"]),
    ([*SWEEP, "--threads", "9" * 30], ["threads=9", "<= 1024"]),
    ([*SWEEP, "--conditions", "kvcomm:capacity=1" + "0" * 400], ["capacity=1", "2 to"]),
    ([*SWEEP, "--conditions", "kvcomm:capacity=" + "9" * 5000], ["capacity=9", "an integer"]),
    ([*SWEEP, "--max-new-tokens", "0"], ["max_new_tokens=0", ">= 1"]),
    ([*SWEEP, "--ids", ","], ["ids=[]", "length >= 1"]),
    (["sweep", "--out", ""], ["out=''", "length >= 1"]),
    (["reuse", "--window", "6", "--capacity", "5", "--out", "OUT"], ["window=6", "capacity=5"]),
    (["reuse", "--window", "0", "--out", "OUT"], ["window=0", "1 to"]),
    (["reuse", "--capacity", "1", "--out", "OUT"], ["capacity=1", "2 to"]),
]

FILES = {
    "plain": "text",
    "plain.jsonl": '{"question": "q", "answer": "#### 3"}\n',
    "empty.jsonl": "",
    "field.jsonl": '{"question": "q", "answer": "#### 3"}\n{"question": "q"}\n',
    "gold.jsonl": '{"question": "q", "answer": "three"}\n',
    "torn.jsonl": '{"question": "q", "answer": "#### 3"}\n\n{"quest',
    "orders.jsonl": (
        '{"id": "a", "name": "ann", "goods": ["jar", "cup"]}\n{"id": "b", "name": "ann", "goods": ["jra", "cup"]}\n'
    ),
    "extra.jsonl": '{"id": "a", "name": "ann", "goods": ["jar", "cup"], "shop": "north"}\n',
    "deep.jsonl": "[" * 100_000,
    "marked.jsonl": '\ufeff{"id": "a", "name": "ann", "goods": ["jra", "cup"]}\n',
    "noid.jsonl": '{"id": "", "name": "ann", "goods": ["jar", "cup"]}\n',
    "deep.yaml": "[" * 3000,
    "list.yaml": "- name: x\n",
    "broken.yaml": "name: [x\n",
    "noroles.yaml": (
        'name: x\nversion: 1\nquestion_prefix: ""\npeers_intro: ""\npeer: "says {output} ."\npeers_outro: ""\n'
        'user_end: ""\nworkers: []\ndecision: {role: d, system: s, user: "{question}"}\n'
    ),
    "noquestion.yaml": (
        'name: x\nversion: 1\nquestion_prefix: ""\npeers_intro: ""\npeer: "says {output} ."\npeers_outro: ""\n'
        'user_end: ""\nworkers:\n  - {role: w, system: s, user: "nothing asked"}\n'
        'decision: {role: d, system: s, user: "{question}"}\n'
    ),
}

GIVEN_FILES = [
    ([*GSM8K], ["gsm8k", "--data"]),
    ([*GSM8K, "--data", "nofile.jsonl"], ["--data", "nofile.jsonl", "expected"]),
    ([*GSM8K, "--data", "."], ["--data", ".", "directory"]),
    ([*GSM8K, "--data", "empty.jsonl"], ["empty.jsonl", "expected at least one"]),
    ([*GSM8K, "--data", "field.jsonl"], ["field.jsonl:2", "'answer'", "expected text"]),
    ([*GSM8K, "--data", "gold.jsonl"], ["gold.jsonl:1", "'answer'", "'#### NUMBER'", "three"]),
    ([*GSM8K, "--data", "torn.jsonl"], ["torn.jsonl:3", "expected one JSON object"]),
    ([*SWEEP, "--data", "nofile.jsonl"], ["nofile.jsonl", "No such file", "expected"]),
    ([*SWEEP, "--data", "orders.jsonl"], ["orders.jsonl:2", "'goods'", "'jra'", "'jar'"]),
    ([*SWEEP, "--data", "extra.jsonl"], ["extra.jsonl:1", "shop", "expected"]),
    ([*GSM8K, "--data", "deep.jsonl"], ["deep.jsonl:1", "nested too deeply"]),
    ([*SWEEP, "--data", "marked.jsonl"], ["marked.jsonl:1", "'goods'", "'jra'"]),
    ([*SWEEP, "--data", "noid.jsonl"], ["noid.jsonl:1", "'id'", "expected text"]),
    ([*SWEEP, "--prompts", "deep.yaml"], ["prompts deep.yaml", "nested too deeply"]),
    (["sweep", "deep.yaml", "--out", "OUT"], ["recipe deep.yaml", "nested too deeply"]),
    ([*SWEEP, "--data", "goods=9"], ["goods=9", "goods=2", "goods=4"]),
    ([*SWEEP, "--prompts", "nofile.yaml"], ["prompts", "nofile.yaml", "No such file"]),
    ([*SWEEP, "--prompts", "list.yaml"], ["prompts", "list.yaml", "object"]),
    ([*SWEEP, "--prompts", "broken.yaml"], ["prompts", "broken.yaml", "not YAML", "line"]),
    ([*SWEEP, "--prompts", "noroles.yaml"], ["prompts", "noroles.yaml", "'workers'", "at least one"]),
    ([*SWEEP, "--prompts", "noquestion.yaml"], ["prompts", "noquestion.yaml", "'w'", "'user'", "{question}"]),
]


@pytest.mark.parametrize(("args", "told"), [*NAMES, *NUMBERS, *GIVEN_FILES], ids=lambda value: " ".join(value)[:60])
def test_a_mistake_is_one_line_that_says_what_was_expected(
    args: list[str],
    told: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    line = _run(args, tmp_path, capsys, monkeypatch)
    assert [word for word in told if word not in line] == [], line


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("agent: 3\n", ["bcrbench.yaml", "'agent'", "'agents'"]),
        ("agents: three\n", ["bcrbench.yaml", "agents='three'", "`int`"]),
        ("agents: 9\n", ["bcrbench.yaml", "agents=9", "<= 5"]),
        ("limit: true\n", ["bcrbench.yaml", "limit=True", "`int"]),
        ("ids: q0001\n", ["bcrbench.yaml", "ids='q0001'", "array"]),
        ("3: 4\n", ["bcrbench.yaml", "'3'"]),
        ("agents: [\n", ["bcrbench.yaml", "not YAML", "line"]),
        ("agents: 1\nlimit: 2\nagents: 3\n", ["bcrbench.yaml", "'agents' is given twice", "line 3"]),
        ("limit: 2020-13-01\n", ["bcrbench.yaml", "not YAML", "month"]),
        (f"limit: {'9' * 5000}\n", ["bcrbench.yaml", "not YAML", "digits"]),
        ("[" * 3000, ["bcrbench.yaml", "nested too deeply"]),
        ("task: !!python/name:os.system\n", ["bcrbench.yaml", "not YAML", "tag"]),
        *((f'{name}: "a\\0b"\n', [name, "NUL"]) for name in ("out", "model", "data", "prompts", "task", "roles")),
        ('out: "\\ud800"\n', ["out", "UTF-8"]),
        ('ids: ["\\ud800"]\n', ["ids", "UTF-8"]),
        ("limit: [" + "[" * 60 + "1" + "]" * 60 + "]\n", ["bcrbench.yaml", "limit=", "..."]),
        ("- agents\n", ["bcrbench.yaml", "list", "expected a mapping"]),
    ],
)
def test_a_wrong_configuration_file(
    text: str, told: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bcrbench.yaml").write_text(text)
    line = _run(TINY, tmp_path, capsys, monkeypatch)
    assert [word for word in told if word not in line] == [], line


@pytest.mark.parametrize("out", ["taken", "taken/below", "astray"])
def test_a_run_directory_that_cannot_be_written_fails_before_the_model_loads(
    out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "astray").symlink_to(tmp_path / "nowhere")
    monkeypatch.setitem(sys.modules, "bcrbench.sweep.execute", None)  # whoever loads models imports it
    line = _run([*TINY[:-1], out], tmp_path, capsys, monkeypatch)
    assert out in line
    assert "expected a directory" in line


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("conditions: [dense]\ncells: []\n", ["line 2", "cells", "[]", "length >= 1"]),
        ("conditions: [null]\n", ["line 1", "conditions[0]", "None", "expected `str`"]),
        ("conditions: [dense, {kvcomm: 1}]\n", ["conditions[1]", "{'kvcomm': 1}", "expected `str`"]),
        ("conditions: [dense]\nconditions: [kvcomm]\n", ["'conditions' is given twice"]),
        ("conditions: [dense]\nsettings: {limit: 1, limit: 2}\n", ["'limit' is given twice"]),
        ("conditions: [dense]\nsettings: {3: 4}\n", ["line 2", "settings", "{3: 4}", "expected `str`"]),
    ],
)
def test_a_wrong_recipe(
    text: str, told: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    line = _run(["sweep", "mine.yaml", "--out", "OUT"], tmp_path, capsys, monkeypatch)
    assert [word for word in ["mine", *told] if word not in line] == [], line


def test_a_value_that_grows_by_aliases_is_told_in_a_short_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = "&a0 [x, x, x]" + "".join(f", &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(12))
    (tmp_path / "mine.yaml").write_text(f"conditions: [dense]\nsettings: {{limit: [{bomb}]}}\n")
    line = _run(["sweep", "mine.yaml", "--out", "OUT"], tmp_path, capsys, monkeypatch)
    assert "limit=" in line
    assert len(line) < 300


@pytest.mark.parametrize("sign", ["\x1b[31m", "\r", "\x07", "\u202e", "\u2028", "\x9b"])
def test_a_mistake_is_shown_without_what_a_terminal_obeys(
    sign: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for args in (["stats", f"a{sign}b"], [*SWEEP, "--data", f"a{sign}b"], ["sweep", f"a{sign}b.yaml"], [f"a{sign}b"]):
        line = _run(args, tmp_path, capsys, monkeypatch)
        assert line[:-1].isprintable(), args


def test_a_failing_model_leaves_no_run_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "gpt2"}')
    (model / "model.safetensors").write_bytes(b"")
    line = _run([*SWEEP, "--model", "model"], tmp_path, capsys, monkeypatch)
    assert "'gpt2'" in line
    assert "llama" in line


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: ")
