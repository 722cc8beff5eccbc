"""Pages for tests: made by the functions that the command calls, taken apart by the standard library's parser."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import hostile
import msgspec
from figurelogs import served
from loglines import item_record, write_log

from bcrbench.runs.schema import Feedback, Gate, GradeRecord, ItemRecord, Rows
from bcrbench.stats.figures.source import read_for_figures
from bcrbench.stats.page.show import show
from bcrbench.stats.report import Options
from bcrbench.stats.units import report_all


def make_page(paths: Sequence[Path], html: Path, **options: Any) -> str:
    """The page of some logs, as `bcrbench stats --html` writes it."""
    logs = [read_for_figures(path) for path in paths]
    asked = Options(**options)
    show(logs, asked, report_all(logs, asked).notes, html, None)
    return html.read_text(encoding="utf-8")


class Parsed(HTMLParser):
    """A page's tags with their attributes, its visible text, and the bodies of its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.bodies: list[tuple[str, dict[str, str], str]] = []
        self._inside: tuple[str, dict[str, str]] | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = {name: value or "" for name, value in attrs}
        self.tags.append((tag, facts))
        if tag in ("script", "style"):
            self._inside = (tag, facts)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is None:
            self.text += data
        else:
            self.bodies.append((*self._inside, data))

    def data(self) -> dict[str, Any]:
        """What the browser of items reads."""
        (body,) = [text for _, facts, text in self.bodies if facts.get("id") == "data"]
        found: dict[str, Any] = json.loads(body)
        return found


def hostile_logs(folder: Path) -> list[Path]:
    """Two logs in which everything that a person or a model may write is hostile."""
    rng = random.Random(0)
    one, two = [], []
    for k, text in enumerate((*hostile.ALL, hostile.LONG)):
        name = f"i{k}{hostile.SCRIPT}{hostile.REORDER}"
        one.append(_hostile_item(rng, k, name, text, "correct"))
        two.append(_hostile_item(rng, k, name, text + " and more", "wrong" if k < 4 else "error:<b>"))
    bad: dict[str, Any] = {"task": hostile.ATTRIBUTE, "model": {"spec": hostile.SCRIPT, "weights_hash": "w0"},
           "grader": {"name": hostile.COMMENT, "version": 1}}  # fmt: skip
    grades = [GradeRecord(id=item.id, grader=hostile.SCRIPT, grader_version=1, prediction=hostile.REORDER,
                          outcome=f"error:{hostile.ATTRIBUTE}") for item in two]  # fmt: skip
    return [
        write_log(folder / "one.jsonl", "dense", [True] * 5, made=one, **bad),
        write_log(folder / "two.jsonl", f"kvcomm:gamma=1.0,{hostile.SCRIPT}{hostile.REORDER}", [True] * 5, made=two,
                  grades=grades, **bad),
    ]  # fmt: skip


def _hostile_item(rng: random.Random, index: int, name: str, text: str, outcome: str) -> ItemRecord:
    odd = hostile.SCRIPT + hostile.REORDER
    gate = Gate(segment=odd, rows=9, anchors=3, available=3, decision="sharable", why=odd, entropy=0.5, limit=1.1)
    made = served(
        rng, odd, index % 2 == 0, text=text, role=odd, why=odd, gate=[gate], selected_spans=[(8, 16), (40, 48)],
        skipped=odd, draft_ids=[3, 4], gold=odd, prediction=odd, feedback=Feedback(tool=odd, text=odd, outcome=odd),
        rows=Rows(cached=99, exact=40, predicted=59, selected=16, recomputed=16),
    )  # fmt: skip
    item = item_record(index, outcome, rng, text=text, gold=odd, prediction=odd, calls=[made])
    return msgspec.structs.replace(item, id=name)
