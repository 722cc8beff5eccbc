"""Train the bundled `quotes` model: `python -m bcrbench.bundled.train --seed 0 --out DIR`.

A four-layer Llama of 0.8 M parameters learns every shop's prices by heart, to add them up in the order's sequence,
and to read the lowest of the quoted totals. The recipe is AdamW with a linear decay on batches of similar length; the
loss covers answers only. Prompts go through the task's prompt set and the tokenizer's chat template, over random
graphs and roles, so that any topology of one to five workers is familiar. Orders whose sequence of goods is reserved
(orders.reserved) never occur, so no item of any evaluation set does.

Deterministic given seed, steps, threads and torch build. docs/quotes.md says how long it takes and what it reaches.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn.functional import cross_entropy

from bcrbench.agents.graph import MAX_WORKERS, TOPOLOGIES, Agent, build_graph
from bcrbench.agents.prompt import encode, render
from bcrbench.agents.promptset import Heard
from bcrbench.bundled.orders import (
    MAX_GOODS,
    MIN_GOODS,
    PRICES,
    SHOPS,
    Order,
    buyer_answer,
    clerk_answer,
    random_order,
    reserved,
)
from bcrbench.bundled.tokenizer import MAX_LENGTH, build_tokenizer
from bcrbench.tasks.quotes import Quotes

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

BATCH = 64
POOL = 16  # batches drawn together and sorted by length
WARMUP = 100
BUYER = 0.25  # share of buyers
SLIP = 0.15  # share of quotes with one wrong price: clerks must not copy them, the buyer must read them


class Mixture(NamedTuple):
    """Which graphs examples come from: numbers of workers and topologies to choose among, repeats weigh."""

    workers: tuple[int, ...]
    topologies: tuple[str, ...]
    alone: float  # share of clerks that hear nobody: short prompts, on which prices are learned fastest


MIXTURES = {
    "usual": Mixture((1, 2, 3, 3, 3, 4, MAX_WORKERS), tuple(TOPOLOGIES.names()), 0.45),
    "large": Mixture((3, 4, MAX_WORKERS), ("full", "full", *TOPOLOGIES.names()), 0.15),
}


@dataclass(frozen=True)
class Settings:
    """What a training run is given; `start` is a folder whose weights it goes on from."""

    out: Path
    start: Path | None
    graphs: str
    peak: float
    seed: int
    steps: int
    report_every: int
    bfloat16: bool


class Example(NamedTuple):
    """Token ids of a prompt and of its answer, stop token included."""

    prompt: list[int]
    answer: list[int]


class Examples:
    """An endless stream of examples; `evaluation` draws reserved orders and makes no slips."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, seed: int | str, graphs: str = "usual", evaluation: bool = False
    ) -> None:
        self.tokenizer = tokenizer
        self.prompts = Quotes().prompts()
        self.rng = random.Random(seed)
        self.mixture = MIXTURES[graphs]
        self.evaluation = evaluation

    def order(self) -> Order:
        """A random order of the right side of the split."""
        while True:
            order = random_order(self.rng, self.rng.randint(MIN_GOODS, MAX_GOODS))
            if reserved(order.goods) == self.evaluation:
                return order

    def draw(self, buyer: bool | None = None) -> Example:
        """One example; of a buyer or of a clerk when `buyer` says so."""
        order = self.order()
        graph = self._graph()
        buys = self.rng.random() < BUYER if buyer is None else buyer
        agent = graph[-1] if buys else self._clerk(graph)
        roles = {node.id: node.role for node in graph}
        quotes = {peer: self._quote(order, roles[peer]) for peer in agent.hears}
        if agent.decides:
            answer = buyer_answer([sum(prices) for prices in quotes.values()])
        else:
            answer = clerk_answer(_prices(order, agent.role))
        heard = [Heard(peer, roles[peer], clerk_answer(prices)) for peer, prices in quotes.items()]
        return self.encode(agent.role, order.text, heard, answer)

    def encode(self, role: str, question: str, heard: list[Heard], answer: str) -> Example:
        """Render an agent's prompt through the prompt set and the chat template."""
        wording = self.prompts.role(role)
        user = self.prompts.user_text(role, question, heard)
        text = render(self.tokenizer, wording.system, user) + wording.assistant
        written = [*encode(self.tokenizer, answer), self.tokenizer.eos_token_id]
        return Example(encode(self.tokenizer, text), written)

    def _graph(self) -> list[Agent]:
        workers = self.rng.choice(self.mixture.workers)
        roles = [self.rng.choice(self.prompts.worker_roles()) for _ in range(workers)]
        return build_graph(self.rng.choice(self.mixture.topologies), workers, roles, self.prompts.decision_role)

    def _clerk(self, graph: list[Agent]) -> Agent:
        if self.rng.random() < self.mixture.alone:
            return graph[0]
        return self.rng.choice(graph[:-1])

    def _quote(self, order: Order, role: str) -> list[int]:
        prices = _prices(order, role)
        if not self.evaluation and self.rng.random() < SLIP:
            prices[self.rng.randrange(len(prices))] = self.rng.randint(1, 9)
        return prices


def _prices(order: Order, role: str) -> list[int]:
    shop = next(shop for shop in SHOPS if shop in role.split())
    return [PRICES[shop][good] for good in order.goods]


def batches(examples: Examples) -> Iterator[list[Example]]:
    """Endless batches of examples of similar length, in random order."""
    while True:
        drawn = sorted((examples.draw() for _ in range(BATCH * POOL)), key=_length)
        groups = [drawn[start : start + BATCH] for start in range(0, len(drawn), BATCH)]
        examples.rng.shuffle(groups)
        yield from groups


def _length(example: Example) -> int:
    return len(example.prompt) + len(example.answer)


def answer_logits(model: LlamaForCausalLM, batch: list[Example]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits [answer tokens, vocabulary] and targets [answer tokens] of a batch, padded on the right.

    Padding needs no mask: under a causal mask no answer token sees it.
    """
    width = max(map(_length, batch))
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    asked = torch.zeros(len(batch), width, dtype=torch.bool)
    for row, example in enumerate(batch):
        ids[row, : _length(example)] = torch.tensor(example.prompt + example.answer)
        asked[row, len(example.prompt) - 1 : _length(example) - 1] = True
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
    return model.lm_head(hidden[asked]), ids.roll(-1, dims=1)[asked]


@torch.no_grad()
def exact_match(model: LlamaForCausalLM, examples: list[Example]) -> float:
    """Share of answers that greedy decoding would give whole.

    Greedy decoding writes the gold answer exactly when every token is the likeliest after the gold ones before it, so
    one pass a batch suffices.
    """
    solved = 0
    for start in range(0, len(examples), BATCH):
        batch = examples[start : start + BATCH]
        logits, targets = answer_logits(model, batch)
        hits = (logits.argmax(-1) == targets).split([len(example.answer) for example in batch])
        solved += sum(bool(hit.all()) for hit in hits)
    return solved / len(examples)


def build_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """The untrained model: Llama, 4 layers, width 128, 4 heads, 2 key-value heads of size 32."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=True,
        initializer_range=0.05,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return LlamaForCausalLM(config)


def load_model(folder: Path) -> LlamaForCausalLM:
    """A model that an earlier training run wrote."""
    from transformers import LlamaForCausalLM

    return LlamaForCausalLM.from_pretrained(folder)


def rate(step: int, settings: Settings) -> float:
    """The learning rate of a step, counted from 0: linear warm-up, then linear decay to zero."""
    left = (settings.steps - step) / max(1, settings.steps - WARMUP)
    return settings.peak * min((step + 1) / WARMUP, left)


def train(settings: Settings) -> None:
    """Train and write model, generation config and tokenizer to `out` at every report and at the end."""
    torch.manual_seed(settings.seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer) if settings.start is None else load_model(settings.start)
    optimiser = torch.optim.AdamW(model.parameters(), lr=settings.peak, betas=(0.9, 0.98), weight_decay=0.05)
    held_out = Examples(tokenizer, f"held out {settings.seed}", settings.graphs, evaluation=True)
    clerks = [held_out.draw(buyer=False) for _ in range(4 * BATCH)]
    buyers = [held_out.draw(buyer=True) for _ in range(2 * BATCH)]
    stream = batches(Examples(tokenizer, f"training {settings.seed}", settings.graphs))
    started, losses = time.monotonic(), []
    for step in range(settings.steps):
        losses.append(update(model, optimiser, next(stream), rate(step, settings), settings.bfloat16))
        if (step + 1) % settings.report_every and step + 1 < settings.steps:
            continue
        minutes = (time.monotonic() - started) / 60
        print(
            f"step {step + 1}/{settings.steps} loss {sum(losses) / len(losses):.4f}"
            f" exact-match clerks {exact_match(model, clerks):.3f} buyer {exact_match(model, buyers):.3f}"
            f" ({minutes:.1f} min)",
            flush=True,
        )
        losses.clear()
        save(model, tokenizer, settings.out)


def update(
    model: LlamaForCausalLM, optimiser: torch.optim.Optimizer, batch: list[Example], learning_rate: float, half: bool
) -> float:
    """One optimiser step, its matrix products in bfloat16 when `half`; returns the batch's loss."""
    for group in optimiser.param_groups:
        group["lr"] = learning_rate
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        loss = cross_entropy(*answer_logits(model, batch))
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    return loss.item()


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Write a folder that AutoModelForCausalLM and AutoTokenizer load."""
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def main() -> None:
    """Read the options and train."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    parser = argparse.ArgumentParser(prog="python -m bcrbench.bundled.train", description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the model, made if it is missing")
    parser.add_argument("--start", type=Path, help="folder of an earlier run, to go on from its weights")
    parser.add_argument("--graphs", choices=MIXTURES, default="usual", help="mostly three workers, or three to five")
    parser.add_argument("--peak", type=float, default=2e-3, help="highest learning rate (default 0.002)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=3000, help="batches of 64 (default 3000)")
    parser.add_argument("--report-every", type=int, default=100, help="steps between reports and saves (default 100)")
    parser.add_argument("--bfloat16", action="store_true", help="bfloat16 products: faster where the CPU has them")
    parser.add_argument("--threads", type=int, default=1, help="cores to use; take only free ones (default 1)")
    options = vars(parser.parse_args())
    torch.set_num_threads(options.pop("threads"))
    train(Settings(**options))


if __name__ == "__main__":
    main()
