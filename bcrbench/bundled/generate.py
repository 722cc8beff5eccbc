"""Write an item set: `python -m bcrbench.bundled.generate --out FILE.jsonl [--goods N] [--count N] [--seed N]`.

Orders are distinct and drawn from the sequences of goods that are reserved for evaluation (orders.reserved), so the
bundled model never saw them. Without options the command writes the bundled set, quotes.jsonl, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from bcrbench.bundled.orders import MAX_GOODS, MIN_GOODS, NAMES, Order, reserved, sequences

SEED = 1
BUNDLED_COUNTS = {2: 200, 3: 400, 4: 400}  # there are 270 reserved orders of two goods


def candidates(goods: int) -> list[Order]:
    """All orders of `goods` goods that training never sees."""
    return [Order(name, choice) for choice in sequences(goods) if reserved(choice) for name in NAMES]


def generate(counts: dict[int, int], seed: int) -> list[Order]:
    """Distinct orders, `counts[n]` of n goods, in random sequence. Raises ValueError when there are too few."""
    rng = random.Random(seed)
    orders = [order for goods, count in counts.items() for order in rng.sample(candidates(goods), count)]
    rng.shuffle(orders)
    return orders


def to_jsonl(orders: list[Order]) -> str:
    """One JSON object a line: id, name, goods."""
    lines = [
        json.dumps({"id": f"q{number:04}", "name": order.name, "goods": order.goods})
        for number, order in enumerate(orders, start=1)
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the options and write the file."""
    parser = argparse.ArgumentParser(prog="python -m bcrbench.bundled.generate", description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    sizes = range(MIN_GOODS, MAX_GOODS + 1)
    parser.add_argument("--goods", type=int, choices=sizes, help="goods per order (default: the bundled mixture)")
    parser.add_argument("--count", type=int, default=250, help="orders, with --goods (default 250)")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    counts = BUNDLED_COUNTS if options.goods is None else {options.goods: options.count}
    for goods, count in counts.items():
        available = len(candidates(goods))
        if not 1 <= count <= available:
            parser.error(f"--count {count}: expected 1 to {available}, all reserved orders of {goods} goods")
    options.out.write_text(to_jsonl(generate(counts, options.seed)), encoding="utf-8")


if __name__ == "__main__":
    main()
