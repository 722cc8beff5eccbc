"""File names of run logs: readable, safe on every file system, and different for different runs."""

from __future__ import annotations

from urllib.parse import quote

_LONGEST = 120  # characters of a condition in a name; file systems allow 255 bytes for the whole


def log_name(task: str, condition: str, agents: int, fingerprint: str) -> str:
    """`<task>.<condition>.<agents>a.<fingerprint>.jsonl`, with task and condition made safe."""
    return f"{safe(task)}.{safe(condition)[:_LONGEST]}.{agents}a.{fingerprint}.jsonl"


def safe(text: str) -> str:
    """A string for a file name: letters, digits and `_ . - = , ~` stay, `:` becomes `+`, all else is percent-encoded.

    A `+` of its own becomes `%2B`, so two strings never give the same result. `log_name` cuts what is longer than
    120 characters; the fingerprint, which covers the condition, keeps those apart.
    """
    return quote(text, safe="=,:").replace(":", "+")
