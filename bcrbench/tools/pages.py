"""The tool `pages`: looks up what an agent marked as @query@ in recorded pages (decision 15, kvcomm.md 3.2)."""

from __future__ import annotations

import re
from typing import ClassVar

from bcrbench.grading.kit import Kit
from bcrbench.runs.schema import Feedback
from bcrbench.tools.base import Need

MAX_QUERIES = 8
MAX_CHARACTERS = 4000  # of all pages together; the release cuts at 1,024 tokens
_QUERY = re.compile(r"@+([^@\n]+?)@+")


class LookUp:
    """Answers the look-ups of a response with the pages that were recorded for them."""

    name: ClassVar[str] = "pages"
    needs: ClassVar[Need] = "pages"

    def feedback(self, said: str, question: str, kit: Kit) -> Feedback:
        """Title and text of every page found, in the order asked for, each once."""
        assert kit.pages is not None, "the tool is active only where there are pages"
        asked = list(dict.fromkeys(match.strip() for match in _QUERY.findall(said)))[:MAX_QUERIES]
        found = [page for query in asked if (page := kit.pages.find(query)) is not None]
        unique = list(dict.fromkeys(f"{page.title}: {page.text.strip()}" for page in found))
        if not unique:
            return Feedback(tool=self.name, text="Nothing was found.", outcome="nothing-found" if asked else "no-query")
        return Feedback(tool=self.name, text="\n".join(unique)[:MAX_CHARACTERS], outcome="ok")
