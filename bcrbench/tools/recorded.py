"""Recorded pages: what a look-up finds, from a file and never from the network (decision 15).

One page a line: {"title": "Photosynthesis", "text": "Photosynthesis is ..."}; `aliases`, a list of other titles, is
optional. A query finds the page whose title or alias equals it, case and spacing aside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import msgspec

from bcrbench.errors import UserError
from bcrbench.jsonl_file import read_rows


class Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One recorded page."""

    title: str
    text: str
    aliases: list[str] = []


@dataclass(frozen=True)
class Pages:
    """Pages by normalised title, and the hash of the file that they were read from."""

    hash: str
    by_title: dict[str, Page] = field(repr=False)

    def find(self, query: str) -> Page | None:
        """The page of a title or an alias; None when none was recorded."""
        return self.by_title.get(normal(query))


def normal(title: str) -> str:
    """A title as it is looked up."""
    return " ".join(title.split()).casefold()


def read_pages(path: Path) -> Pages:
    """Read a JSONL file of pages. Raises UserError naming file, line and field."""
    by_title: dict[str, Page] = {}
    expected = 'an object with "title", "text" and optionally "aliases"'
    for where, page in read_rows("--retrieval", path, Page, expected):
        for name in [page.title, *page.aliases]:
            if not normal(name):
                raise UserError(f"{where}: field 'title': {name!r}, expected text")
            if normal(name) in by_title:
                raise UserError(f"{where}: field 'title': {name!r} is given twice, expected one page a title")
            by_title[normal(name)] = page
    if not by_title:
        raise UserError(f"--retrieval {path}: no pages, expected at least one")
    return Pages(sha256(path.read_bytes()).hexdigest()[:16], by_title)
