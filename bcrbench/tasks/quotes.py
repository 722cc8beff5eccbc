"""The bundled task: clerks of different shops price one order, the buyer names the lowest total.

Items come from `--data`:
  (nothing)      the bundled set, 1,000 orders of two to four goods that the bundled model never saw
  goods=3        those of the bundled set with three goods: the difficulty knob
  FILE.jsonl     one order a line, {"id": "q1", "name": "ann", "goods": ["jar", "cup"]}; bcrbench.bundled.generate
                 writes such files, of any size and number of goods

What an order costs depends on the clerks, so each role has a gold of its own and the final gold is the lowest among
the roles that take part (`Quotes.gold`). docs/quotes.md says what the task is evidence for, and what not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from bcrbench.agents.promptset import PromptSet, load_prompts
from bcrbench.bundled.orders import GOODS, MAX_GOODS, MIN_GOODS, NAMES, SHOPS, Order
from bcrbench.errors import UserError, unknown
from bcrbench.tasks.base import Grader, Item
from bcrbench.tasks.data_file import read_rows

BUNDLED = Path(__file__).parent.parent / "bundled" / "quotes.jsonl"
PROMPTS = Path(__file__).parent / "prompts" / "quotes.yaml"


class OrderLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of an order file."""

    id: str
    name: str
    goods: tuple[str, ...]


class QuotesTotal:
    """The number after the last `####`, its digits joined; correct when it equals the gold."""

    name = "quotes-total"
    version = 1

    def predict(self, text: str) -> str | None:
        """The number, without blanks; None when no digit follows the last `####`."""
        _, mark, tail = text.rpartition("####")
        digits = _leading_digits(tail.split()) if mark else ""
        return digits or None

    def correct(self, prediction: str | None, gold: str) -> bool:
        """Whether the prediction is the gold, character by character."""
        return prediction == gold


class Quotes:
    """The task as the registry knows it."""

    name = "quotes"
    graders: Mapping[str, Grader] = {"quotes-total": QuotesTotal()}
    default_grader = "quotes-total"
    max_new_tokens = 40
    default_limit = 100  # without --limit, --ids or --data: a demonstration that takes about a minute

    def prompts(self) -> PromptSet:
        """The bundled wording: clerks of north, south, east and west, then the buyer."""
        return load_prompts(PROMPTS)

    def items(self, data: str | None = None) -> list[Item]:
        """The orders, in the file's sequence. Raises UserError naming file, line and field, or the knob's value."""
        if data is None:
            return read_orders(BUNDLED)
        if data.startswith("goods="):
            return _of_size(data.removeprefix("goods="))
        return read_orders(Path(data))

    def gold(self, item: Item, roles: Iterable[str]) -> str:
        """The lowest total among the clerks that take part; `roles` may hold roles without a gold."""
        totals = [int(item.agent_golds[role]) for role in roles if role in item.agent_golds]
        return str(min(totals)) if totals else item.gold


def read_orders(path: Path) -> list[Item]:
    """Read an order file. Raises UserError naming file, line and field."""
    items = [_item(line, where) for where, line in read_rows(path, OrderLine, "an object with id, name and goods")]
    _check_ids(path, items)
    return items


def _item(line: OrderLine, where: str) -> Item:
    if not line.id:
        raise UserError(f"{where}: field 'id' is empty, expected text")
    _check_words(line, where)
    order = Order(line.name, line.goods)
    golds = {f"{shop} clerk": str(order.total(shop)) for shop in SHOPS}
    lowest = str(min(order.total(shop) for shop in SHOPS))
    return Item(line.id, order.text, lowest, golds, {"goods": len(line.goods)})


def _check_words(line: OrderLine, where: str) -> None:
    if not MIN_GOODS <= len(line.goods) <= MAX_GOODS:
        raise UserError(f"{where}: field 'goods' has {len(line.goods)} entries, expected {MIN_GOODS} to {MAX_GOODS}")
    if len(set(line.goods)) < len(line.goods):
        raise UserError(f"{where}: field 'goods' names a good twice, expected distinct goods")
    for field, word, known in [("name", line.name, NAMES), *(("goods", good, GOODS) for good in line.goods)]:
        if word not in known:
            raise UserError(f"{where}: field '{field}': {unknown(field, word, known)}")


def _check_ids(path: Path, items: list[Item]) -> None:
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise UserError(f"{path}: field 'id' {item.id!r} is given twice, expected distinct ids")
        seen.add(item.id)
    if not items:
        raise UserError(f"{path}: no orders, expected one JSON object a line")


def _of_size(count: str) -> list[Item]:
    sizes = [str(size) for size in range(MIN_GOODS, MAX_GOODS + 1)]
    if count not in sizes:
        raise UserError(f"--data goods={count}: expected goods={MIN_GOODS} to goods={MAX_GOODS}")
    return [item for item in read_orders(BUNDLED) if item.meta["goods"] == int(count)]


def _leading_digits(words: list[str]) -> str:
    digits = ""
    for word in words:
        if not (word.isascii() and word.isdigit()):
            break
        digits += word
    return digits
