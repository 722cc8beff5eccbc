"""The committed model: it loads like any other, answers unseen orders, and its order rows depend on the shop."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from bcrbench.agents.graph import Agent, build_graph
from bcrbench.agents.prompt import Prompt, build_template, encode
from bcrbench.agents.promptset import Heard
from bcrbench.bundled.orders import PRICES, SHOPS, buyer_answer, clerk_answer
from bcrbench.bundled.tokenizer import build_tokenizer
from bcrbench.bundled.train import Example, Examples, exact_match
from bcrbench.tasks.base import Item
from bcrbench.tasks.quotes import BUNDLED, Quotes, QuotesTotal

MODEL = BUNDLED.parent / "model"
LIMIT_BYTES = 8 * 2**20
TASK = Quotes()
PROMPTS = TASK.prompts()


@pytest.fixture(scope="module")
def model():
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(MODEL).eval()


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(MODEL)


def goods_of(item: Item) -> list[str]:
    return [word for word in item.question.split() if word in PRICES["north"]]


def quote(item: Item, shop: str) -> str:
    return clerk_answer([PRICES[shop][good] for good in goods_of(item)])


def clerk_prompt(tokenizer, item: Item, shop: str) -> Prompt:
    clerk = Agent("1", f"{shop} clerk", ())
    return build_template(tokenizer, PROMPTS, clerk, [clerk]).assemble({"question": encode(tokenizer, item.question)})


def test_the_folder_is_small_and_has_the_tokenizer_that_training_used(tokenizer):
    assert sum(file.stat().st_size for file in Path(MODEL).iterdir()) <= LIMIT_BYTES
    built = build_tokenizer()
    assert tokenizer.get_vocab() == built.get_vocab()
    assert tokenizer.chat_template == built.chat_template


def test_generation_is_greedy_and_stops_at_the_end_token(model, tokenizer):
    settings = model.generation_config
    assert settings.eos_token_id == tokenizer.eos_token_id
    assert not settings.do_sample
    prompt = torch.tensor([clerk_prompt(tokenizer, TASK.items()[0], "north").ids])
    ids = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=TASK.max_new_tokens)[0]
    assert ids[-1] == tokenizer.eos_token_id
    assert QuotesTotal().predict(tokenizer.decode(ids[prompt.shape[1] :])) is not None


@pytest.mark.parametrize("shop", SHOPS)
def test_clerks_price_orders_they_never_saw(model, tokenizer, shop):
    examples = Examples(tokenizer, 0)
    cases = [examples.encode(f"{shop} clerk", item.question, [], quote(item, shop)) for item in TASK.items()[:100]]
    assert exact_match(model, cases) >= 0.97


@pytest.mark.parametrize("workers", [1, 3, 5])
def test_the_buyer_reads_the_quotes_that_it_is_given(model, tokenizer, workers):
    """Quotes of prices that no shop asks: only reading them gives the right totals."""
    rng, examples = random.Random(workers), Examples(tokenizer, 0)
    graph = build_graph("full", workers, [f"{SHOPS[i % 4]} clerk" for i in range(workers)], "buyer")
    assert exact_match(model, [strange_case(rng, examples, graph, item) for item in TASK.items()[:100]]) >= 0.9


def strange_case(rng: random.Random, examples: Examples, graph: list[Agent], item: Item) -> Example:
    """A buyer's prompt in which one price of each quote is not the shop's."""
    quotes = {}
    for agent in graph[:-1]:
        prices = [PRICES[agent.role.split()[0]][good] for good in goods_of(item)]
        prices[rng.randrange(len(prices))] = rng.randint(1, 9)
        quotes[agent.id] = prices
    answer = buyer_answer([sum(prices) for prices in quotes.values()])
    heard = [Heard(agent.id, agent.role, clerk_answer(quotes[agent.id])) for agent in graph[:-1]]
    return examples.encode("buyer", item.question, heard, answer)


def test_order_rows_of_another_shop_bring_that_shops_total(model, tokenizer):
    """What the benchmark stands on: the rows of the order carry the prices of the shop they were computed under."""
    rng, totals = random.Random(0), {"own": 0, "other": 0}
    for item in TASK.items()[:40]:
        own, other = rng.sample(SHOPS, 2)
        answer = QuotesTotal().predict(answer_on_rows_of(model, tokenizer, item, own, other))
        totals["own"] += answer == item.agent_golds[f"{own} clerk"]
        totals["other"] += answer == item.agent_golds[f"{other} clerk"]
    assert totals["other"] > 2 * totals["own"]


def answer_on_rows_of(model, tokenizer, item: Item, own: str, other: str) -> str:
    """The own clerk's greedy answer when the order's rows come from the other clerk's prompt, at equal positions."""
    prompt, donor = clerk_prompt(tokenizer, item, own), clerk_prompt(tokenizer, item, other)
    order = prompt.shared()[0]
    cache, donated = rows_up_to(model, prompt.ids[: order.end]), rows_up_to(model, donor.ids[: order.end])
    for layer, source in zip(cache.layers, donated.layers, strict=True):
        layer.keys[:, :, order.start :] = source.keys[:, :, order.start :]
        layer.values[:, :, order.start :] = source.values[:, :, order.start :]
    return tokenizer.decode(continuation(model, prompt.ids[order.end :], cache))


@torch.no_grad()
def rows_up_to(model, ids: list[int]):
    return model(torch.tensor([ids]), use_cache=True).past_key_values


@torch.no_grad()
def continuation(model, ids: list[int], cache) -> list[int]:
    """Greedy tokens after the cached rows and `ids`, up to the stop token."""
    written: list[int] = []
    while len(written) < TASK.max_new_tokens and model.config.eos_token_id not in written:
        ids = [int(model(torch.tensor([ids]), past_key_values=cache).logits[0, -1].argmax())]
        written += ids
    return written
