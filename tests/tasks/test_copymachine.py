"""CopyMachine: S symbols are S tokens of whatever tokenizer is loaded; questions depend on no machine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcrbench.agents.graph import build_graph
from bcrbench.agents.prompt import QUESTION, build_template, encode
from bcrbench.cli.main import main
from bcrbench.engine.byte_tokenizer import byte_tokenizer
from bcrbench.engine.model import find_source, load_tokenizer
from bcrbench.errors import UserError
from bcrbench.grading.kit import Kit
from bcrbench.grading.verdict import verdict
from bcrbench.settings import Settings
from bcrbench.sweep.plan import Cell, plan_cell
from bcrbench.tasks.base import items_hash
from bcrbench.tasks.copymachine import CopyMachine
from bcrbench.tasks.symbols import Pair


def trained(words: str, split: bool = True) -> Any:
    """A byte-level BPE tokenizer that has merged whatever its text repeats, split into words as GPT-2's or not."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator([words] * 50, trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="!", eos_token="?")
    made.chat_template = byte_tokenizer().chat_template
    return made


GREEK = " Ω Ω Ω Δ Δ and the words"
HALF = " Ω Ω Ω and A B A B words"  # knows one of the Greek letters, as SmolLM2 does
TOKENIZERS = {
    "bytes": (byte_tokenizer(), "AB"),
    "words": (load_tokenizer(find_source("bundled")), "0 1"),
    "greek": (trained(GREEK), " Ω Δ"),
    "half": (trained(HALF), " A B"),
}
tokenizers = pytest.mark.parametrize("name", TOKENIZERS)


def cell(symbols: int, tokenizer: Any, **changes: Any) -> Cell:
    given_settings = Settings(task="copymachine", data=f"symbols={symbols}", limit=3, **changes)
    return plan_cell(given_settings).spelled(tokenizer)


def run(words: list[str]) -> None:
    """The command line, which has to end well."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 0


@tokenizers
@settings(max_examples=12)
@given(symbols=st.integers(1, 300))
def test_s_symbols_are_s_tokens(name: str, symbols: int) -> None:
    tokenizer, spelling = TOKENIZERS[name]
    made = cell(symbols, tokenizer)
    assert made.spelling == spelling
    for item in made.items:
        assert len(encode(tokenizer, item.question)) == symbols
        assert len(set(encode(tokenizer, item.question)[1:])) <= 2


@tokenizers
def test_the_prompts_own_512_symbols_are_512_tokens(name: str) -> None:
    tokenizer, spelling = TOKENIZERS[name]
    made = cell(7, tokenizer)
    [wording] = made.prompts.workers
    letter = next(char for char in spelling if char != " ")
    assert wording.system.count(letter) == 513  # 512 and the one that the request names
    fixed = build_template(tokenizer, made.prompts, made.agents[0], made.agents).fixed[0]
    assert max(map(fixed.count, fixed)) >= 511, "all but a first one that stands behind no blank are one token"
    assert (made.prompts.name, wording.role) == ("copymachine", "CopyMachine"), "names are no wording"


@tokenizers
def test_the_item_hash_knows_no_tokenizer(name: str) -> None:
    plain = plan_cell(Settings(task="copymachine", data="symbols=33", limit=3))
    made = cell(33, TOKENIZERS[name][0])
    assert made.items_hash == plain.items_hash == items_hash(CopyMachine().items("symbols=33")[:3])
    assert made.spelled(None) is made, "a second spelling would take letters for words"


def test_questions_are_drawn_once_and_for_all() -> None:
    items = CopyMachine().items("symbols=512")
    assert items == CopyMachine().items(None)
    assert (items[0].id, items[-1].id, len({item.question for item in items})) == (
        "copymachine-0000",
        "copymachine-0099",
        100,
    )
    assert items_hash(items) == "3e6feee712bb1728"
    hashes = {symbols: items_hash(CopyMachine().items(f"symbols={symbols}")) for symbols in (64, 512, 2048, 4096)}
    assert len(set(hashes.values())) == 4
    share = sum(item.question.count("Ω") for item in items) / (100 * 512)
    assert 0.45 < share < 0.55


@pytest.mark.parametrize(
    "data", ["symbols=0", "symbols=x", "symbols=-1", "symbols=", "symbols=32769", "file.jsonl", "symbols=1.5"]
)
def test_data_is_a_number_of_symbols(data: str) -> None:
    with pytest.raises(UserError, match="expected symbols=1 to symbols=32768"):
        CopyMachine().items(data)


def test_a_tokenizer_without_two_such_tokens_is_refused_with_the_counts() -> None:
    tokenizer = trained("AB AB BA AA BB", split=False)
    with pytest.raises(UserError) as caught:
        cell(40, tokenizer)
    told = str(caught.value)
    assert "\n" not in told and "40 as ' Ω Δ' are 120" in told and "'AB'" in told


def test_a_lone_symbol_in_a_sentence_keeps_its_blanks() -> None:
    for pair, run in ((Pair("AB"), " A B A"), (Pair("AB", lead=""), "A B A"), (Pair("AB", between="", lead=""), "ABA")):
        assert pair.text("Ω Δ Ω") == run
        assert pair.text("say Ω or Δ, not both") == "say A or B, not both"
        assert pair.text("Ω") == pair.lead + "A"
        assert pair.text("so: Ω Δ Ω\nΔ.") == f"so:{run}\nB."


@given(st.text())
def test_nothing_is_ever_graded(text: str) -> None:
    found = verdict(CopyMachine.graders["none"], text, "", Kit())
    assert (found.outcome, found.prediction) == ("ungraded", None)
    assert found.reason


def test_nobody_decides_and_the_last_agent_hears_all_others() -> None:
    made = cell(5, byte_tokenizer(), agents=5)
    assert [agent.id for agent in made.agents] == ["1", "2", "3", "4", "5"]
    assert made.agents == build_graph("full", 5, ["CopyMachine"] * 5, None)
    template = build_template(byte_tokenizer(), made.prompts, made.agents[-1], made.agents)
    assert template.names == [QUESTION, "agent_1", "agent_2", "agent_3", "agent_4"]


def test_a_dry_run_shows_the_spelling_and_loads_no_model(capsys: pytest.CaptureFixture[str]) -> None:
    run(["sweep", "--symbols", "6,9", "--gamma", "1.0", "--model", "random:tiny", "--dry-run"])
    out = capsys.readouterr().out
    assert out.count('"spelling": "AB"') == 2
    assert out.count('"twins": true') == out.count('"warm_up": 2') == 2
    questions = [line.split("'")[1] for line in out.splitlines() if line.startswith("question")]
    assert [len(question) for question in questions] == [6, 9]
    assert set("".join(questions)) == {"A", "B"}
    assert "4 runs; nothing was run" in out


def test_verify_compares_the_tokens_of_both_paths(capsys: pytest.CaptureFixture[str]) -> None:
    run(
        ["verify", "--tokens", "--task", "copymachine", "--data", "symbols=9", "--model", "random:tiny", "--limit", "4"]
    )
    assert "100 % of prompts have the same ids" in capsys.readouterr().out
