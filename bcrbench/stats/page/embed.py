"""Data inside a page: JSON that no HTML parser can take for markup, and the hashes of a content security policy."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec

# In JSON these stand in strings only, where the escape means the same character.
_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def to_json(value: Any) -> bytes:
    """A value as JSON for a <script type="application/json"> block: it holds no <, > or & and no line separator."""
    data = msgspec.json.encode(value)
    for raw, escaped in _ESCAPES:
        data = data.replace(raw, escaped)
    return data


def policy_hash(text: str) -> str:
    """The source expression that lets a content security policy run exactly this inline text."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
