"""Data inside a page: JSON that no HTML parser can take for markup, and the hashes of a content security policy."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import msgspec

# In JSON these stand in strings only, where the escape means the same character.
# Marks that reorder text are among them, so that the source reads as it runs.
_CHARACTERS = "<>&\u2028\u2029\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_ESCAPES = {char.encode(): f"\\u{ord(char):04x}".encode() for char in _CHARACTERS}
_RAW = re.compile(b"|".join(map(re.escape, _ESCAPES)))


def to_json(value: Any) -> bytes:
    """A value as JSON for a <script type="application/json"> block: it holds no <, > or &."""
    return _RAW.sub(lambda found: _ESCAPES[found[0]], msgspec.json.encode(value))


def policy_hash(text: str) -> str:
    """The source expression that lets a content security policy run exactly this inline text."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
