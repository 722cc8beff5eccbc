"""Dense time to first token against `transformers` generate on the same prompt, threads and dtype.

Run: python tests/bench/bench_ttft.py --model MODEL [--tokens 1200,600,400] [--rounds 9]
Order alternates; warm-ups are discarded; the medians and the median of the paired ratios are printed.
"""

from __future__ import annotations

import argparse
import statistics
from time import perf_counter
from typing import Any

import torch

from bcrbench.engine.model import load
from bcrbench.reuse.policies import Dense
from bcrbench.reuse.segments import join
from bcrbench.reuse.serve import Job, Server


def main() -> None:
    """Print one line a prompt length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", default="1200,600,400,60")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    runtime = load(options.model, device="cpu", dtype="float32")
    twin = load(options.model, device="cpu", dtype="float32").model
    twin.set_attn_implementation("sdpa")
    server = Server(runtime, Dense(), {}, 1)
    print(f"threads {torch.get_num_threads()}, torch {torch.__version__}")
    for count in map(int, options.tokens.split(",")):
        torch.manual_seed(0)
        ids = torch.randint(10, runtime.model.config.vocab_size - 10, (count,)).tolist()
        print(line(server, twin, ids, options.rounds))


def line(server: Server, twin: Any, ids: list[int], rounds: int) -> str:
    """Paired times of one prompt."""
    ours, theirs = [], []
    for number in range(rounds + 2):
        pair = [lambda: ours.append(mine(server, ids)), lambda: theirs.append(generate(twin, ids))]
        for step in pair if number % 2 else reversed(pair):
            step()
    ours, theirs = ours[2:], theirs[2:]
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    return (
        f"{len(ids)} tokens: ours {statistics.median(ours):.1f} ms, generate {statistics.median(theirs):.1f} ms, "
        f"median of paired ratios {ratio:.3f}"
    )


def mine(server: Server, ids: list[int]) -> float:
    """Milliseconds to the first token of a dense call."""
    prompt = join([ids], [], [])
    return server.serve(Job("1", (), prompt, "agent_1", False)).ttft_ms


@torch.inference_mode()
def generate(twin: Any, ids: list[int]) -> float:
    """Milliseconds of one-token generation by transformers."""
    begin = perf_counter()
    twin.generate(torch.tensor([ids]), max_new_tokens=1, do_sample=False, pad_token_id=0)
    return (perf_counter() - begin) * 1e3


if __name__ == "__main__":
    main()
