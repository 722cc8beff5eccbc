"""The bundled task: its item set, golds, prompts as tokens, grader, data files, and the training stream's split."""

from __future__ import annotations

import hashlib
import json
import random
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcrbench.agents.graph import TOPOLOGIES, assign_roles, build_graph
from bcrbench.agents.prompt import build_template, encode, response_name
from bcrbench.agents.promptset import Heard
from bcrbench.bundled.generate import BUNDLED_COUNTS, SEED, generate, to_jsonl
from bcrbench.bundled.orders import GOODS, NAMES, PRICES, SHOPS, Order, buyer_answer, clerk_answer, reserved, spaced
from bcrbench.bundled.tokenizer import WORDS, build_tokenizer
from bcrbench.errors import UserError
from bcrbench.tasks.base import final_gold
from bcrbench.tasks.quotes import BUNDLED, Quotes, QuotesTotal

BUNDLED_SHA256 = "afb706831d1c10b9e2a68d8d8d217468159c5fb289c844149c2e6bfe71d9caf9"
TASK = Quotes()
PROMPTS = TASK.prompts()
TOKENIZER = build_tokenizer()
ROLES = PROMPTS.worker_roles()
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)


@st.composite
def orders(draw: st.DrawFn) -> Order:
    """Any order the task knows."""
    goods = draw(st.lists(st.sampled_from(GOODS), min_size=2, max_size=4, unique=True))
    return Order(draw(st.sampled_from(NAMES)), tuple(goods))


def test_item_set_is_what_the_generator_writes():
    assert BUNDLED.read_text() == to_jsonl(generate(BUNDLED_COUNTS, SEED))
    assert hashlib.sha256(BUNDLED.read_bytes()).hexdigest() == BUNDLED_SHA256


def test_items_are_a_thousand_distinct_orders():
    items = TASK.items()
    assert len({item.question for item in items}) == len({item.id for item in items}) == len(items) == 1000
    assert all(" ".join(item.question.split()) == item.question for item in items)


def test_golds_follow_from_the_question_alone():
    for item in TASK.items():
        named = [word for word in item.question.split() if word in GOODS]
        totals = {f"{shop} clerk": str(sum(PRICES[shop][good] for good in named)) for shop in SHOPS}
        assert dict(item.agent_golds) == totals
        assert item.gold == min(totals.values(), key=int)


def test_every_shop_asks_another_price():
    assert all(len({PRICES[shop][good] for shop in SHOPS}) == len(SHOPS) for good in GOODS)


@settings(deadline=None)
@given(st.lists(st.sampled_from(ROLES), min_size=1, max_size=5))
def test_final_gold_is_the_lowest_of_those_who_take_part(roles):
    item = TASK.items("goods=4")[0]
    assert final_gold(TASK, item, roles) == str(min(int(item.agent_golds[role]) for role in roles))


def test_final_gold_of_roles_without_a_gold_is_the_items_own():
    item = TASK.items("goods=2")[0]
    assert final_gold(TASK, item, ["a role of somebody's own prompt set"]) == item.gold


@pytest.mark.parametrize("size", [2, 3, 4])
def test_difficulty_knob_selects_by_number_of_goods(size):
    items = TASK.items(f"goods={size}")
    assert len(items) == BUNDLED_COUNTS[size]
    assert all(sum(word in GOODS for word in item.question.split()) == size for item in items)


@given(st.lists(words, min_size=2, max_size=6), st.sampled_from([" ", "\n", " \n\n"]))
def test_cutting_at_whitespace_keeps_the_ids(pieces, blank):
    pieces = [piece + blank for piece in pieces]
    cut = [token for piece in pieces for token in encode(TOKENIZER, piece)]
    assert cut == encode(TOKENIZER, "".join(pieces))


@settings(deadline=None)
@given(st.data())
def test_prompts_have_the_same_ids_in_pieces_and_whole(data):
    workers = data.draw(st.integers(1, 5))
    spec = data.draw(st.sampled_from(["cycle", *(f"pin:{role}" for role in ROLES)]))
    topology = data.draw(st.sampled_from(TOPOLOGIES.names()))
    graph = build_graph(topology, workers, assign_roles(spec, ROLES, workers), PROMPTS.decision.role)
    agent = data.draw(st.sampled_from(graph))
    contents = {response_name(peer): data.draw(words) for peer in agent.hears}
    contents["question"] = data.draw(orders()).text
    template = build_template(TOKENIZER, PROMPTS, agent, graph)
    merged = template.assemble({name: encode(TOKENIZER, text) for name, text in contents.items()})
    assert merged.ids == encode(TOKENIZER, template.text(contents))
    assert TOKENIZER.unk_token_id not in merged.ids


@given(words)
def test_decoding_returns_the_text(text):
    assert TOKENIZER.decode(encode(TOKENIZER, text)) == text


def test_a_saved_tokenizer_loads_and_renders_alike(tmp_path):
    from transformers import AutoTokenizer

    TOKENIZER.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    turns = [{"role": "system", "content": "you are the buyer"}, {"role": "user", "content": "order for ann"}]
    text = loaded.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert text == TOKENIZER.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert encode(loaded, text) == encode(TOKENIZER, text)
    assert loaded.decode(encode(loaded, text)[-1:]) == "<assistant>"


@given(st.text(max_size=40).filter(lambda text: "####" not in text), st.integers(0, 999))
def test_grader_reads_the_last_total_with_its_digits_joined(before, number):
    grader = QuotesTotal()
    assert grader.predict(f"{before} #### 1 #### {spaced(number)} ; 5") == str(number)
    assert grader.correct(str(number), str(number))
    assert not grader.correct(str(number), str(number + 1))


@given(st.text(max_size=40).filter(lambda text: "####" not in text))
def test_grader_finds_nothing_without_a_mark_or_a_digit(text):
    assert QuotesTotal().predict(text) is None
    assert QuotesTotal().predict(f"1 2 #### please {text}") is None
    assert not QuotesTotal().correct(None, "1")


@given(orders(), st.sampled_from(SHOPS))
def test_gold_answers_are_graded_correct(order, shop):
    prices = [PRICES[shop][good] for good in order.goods]
    totals = [order.total(other) for other in SHOPS]
    assert QuotesTotal().predict(clerk_answer(prices)) == str(order.total(shop))
    assert QuotesTotal().predict(buyer_answer(totals)) == str(min(totals))


@pytest.mark.parametrize("seed", [0, 1])
def test_training_never_sees_a_sequence_of_goods_of_the_item_set(seed):
    from bcrbench.bundled.train import Examples

    kept = {tuple(word for word in item.question.split() if word in GOODS) for item in TASK.items()}
    assert all(map(reserved, kept))
    examples = Examples(TOKENIZER, seed)
    trained = {examples.order().goods for _ in range(3000)}
    assert not trained & kept
    assert not any(map(reserved, trained))


def test_training_prompts_are_what_the_agents_send():
    from bcrbench.bundled.train import Examples

    order = Order("ann", ("jar", "cup"))
    graph = build_graph("full", 3, ROLES[:3], PROMPTS.decision.role)
    outputs = {agent.id: clerk_answer([1, 2]) for agent in graph if not agent.decides}
    contents = {response_name(peer): encode(TOKENIZER, text) for peer, text in outputs.items()}
    contents["question"] = encode(TOKENIZER, order.text)
    for agent in graph:
        heard = [Heard(peer, ROLES[int(peer) - 1], outputs[peer]) for peer in agent.hears]
        example = Examples(TOKENIZER, 0).encode(agent.role, order.text, heard, clerk_answer([1, 2]))
        assert example.prompt == build_template(TOKENIZER, PROMPTS, agent, graph).assemble(contents).ids
        assert example.answer[-1] == TOKENIZER.eos_token_id


def test_the_training_stream_depends_on_its_seed_only():
    from bcrbench.bundled.train import Examples, batches

    first, again, other = (list(islice(batches(Examples(TOKENIZER, seed)), 2)) for seed in (0, 0, 1))
    assert first == again != other


def test_held_out_answers_agree_with_the_golds():
    from bcrbench.bundled.train import Examples

    items = {item.question: item for item in TASK.items()}
    examples = Examples(TOKENIZER, 0, evaluation=True)
    found = 0
    for _ in range(600):
        example = examples.draw(buyer=False)
        prompt = TOKENIZER.decode(example.prompt)
        item = items.get(prompt.partition("<user> ")[2].partition(" please .")[0] + " please .")
        if item is not None:
            shop = prompt.partition("clerk of the ")[2].split()[0]
            answer = TOKENIZER.decode(example.answer[:-1])
            assert QuotesTotal().predict(answer) == item.agent_golds[f"{shop} clerk"]
            found += 1
    assert found > 10


def line(**changes: object) -> str:
    return json.dumps({"id": "a", "name": "ann", "goods": ["jar", "cup"]} | changes)


def test_a_data_file_is_read_with_golds(tmp_path):
    path = tmp_path / "orders.jsonl"
    path.write_text(line() + "\n\n" + line(id="b", goods=["hat", "pen", "map"]) + "\n")
    first, second = TASK.items(str(path))
    assert (first.question, first.agent_golds["south clerk"]) == ("order for ann : i a jar ii a cup please .", "10")
    assert (second.id, second.meta["goods"]) == ("b", 3)


@pytest.mark.parametrize(
    ("text", "needles"),
    [
        (line() + "\n{", [":2: "]),
        (line() + "\n" + line(id=3), [":2: ", "$.id", "str"]),
        ('{"id": "a", "name": "ann"}', [":1: ", "goods"]),
        (line(price=3), [":1: ", "price"]),
        (line(name="anne"), [":1: ", "'name'", "'anne'", "did you mean 'ann'"]),
        (line(goods=["jar", "cub"]), [":1: ", "'goods'", "'cub'", "did you mean 'cup'"]),
        (line(goods=["jar"]), [":1: ", "'goods'", "1 entries", "2 to 4"]),
        (line(goods=["jar", "jar"]), [":1: ", "'goods'", "twice"]),
        (line() + "\n" + line(), ["'id'", "'a'", "twice"]),
        ("\n", ["no orders"]),
    ],
)
def test_a_bad_data_file_is_one_line_that_names_file_line_and_field(tmp_path, text, needles):
    path = tmp_path / "orders.jsonl"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        TASK.items(str(path))
    message = str(caught.value)
    assert "\n" not in message
    assert all(needle in message for needle in [str(path), *needles])


@pytest.mark.parametrize("data", ["goods=5", "goods=", "goods=two", "no_such_file.jsonl"])
def test_a_bad_data_value_is_named(data):
    with pytest.raises(UserError, match=data):
        TASK.items(data)


@settings(deadline=None)
@given(st.integers(0, 50), st.sampled_from([2, 3, 4]))
def test_generated_orders_are_distinct_and_reserved(seed, goods):
    made = generate({goods: 100}, seed)
    assert len(set(made)) == 100
    assert all(reserved(order.goods) and len(order.goods) == goods for order in made)
    assert made != generate({goods: 100}, random.Random(seed).randint(100, 200))
