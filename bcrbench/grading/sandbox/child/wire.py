"""Values and messages between tester and candidate: plain data in JSON, never pickle, marshal or eval.

A frame is eight bytes of length and a JSON text. A value keeps its built-in type; an instance of a subclass travels as
its built-in base, so a method that the candidate overrode, `__eq__` among them, never reaches the tester. Whatever is
not plain data arrives as an `Opaque`, which equals nothing.
"""

from __future__ import annotations

import builtins
import json
import os
from typing import Any

MAX_FRAME = 16 * 2**20  # bytes; no test of HumanEval needs a thousandth of it
TEXT_CAP = 2000  # characters of an exception's or an opaque value's text
_LARGEST_PLAIN = 2**63  # larger integers travel as hexadecimal: decimal conversion is quadratic, and Python limits it


class Gone(Exception):
    """The other side closed its end."""


class Malformed(Exception):
    """What came is not a frame, or not a value."""


class TooLarge(Exception):
    """A message above MAX_FRAME."""


class Opaque:
    """A value of another type: it equals nothing, itself included, and has no other operation."""

    def __init__(self, told: str) -> None:
        self.told = told

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<{self.told}>"


def encode(value: Any) -> Any:
    """Write a value as JSON data.

    Raises RecursionError for a nesting too deep, such as a list inside itself.
    """
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _encode_text(str.__str__(value))
    if isinstance(value, int):
        whole = int.__pos__(value)
        return whole if abs(whole) < _LARGEST_PLAIN else {"int": hex(whole)}
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, list):
        return [encode(item) for item in list.__iter__(value)]
    return _encode_tagged(value)


def _encode_text(text: str) -> Any:
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON would join two lone surrogates into one character
        return {"text": [ord(char) for char in text]}
    return text


def _encode_tagged(value: Any) -> Any:
    if isinstance(value, tuple):
        return {"tuple": [encode(item) for item in tuple.__iter__(value)]}
    if isinstance(value, set):
        return {"set": [encode(item) for item in set.__iter__(value)]}
    if isinstance(value, frozenset):
        return {"frozenset": [encode(item) for item in frozenset.__iter__(value)]}
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in dict.items(value)]}
    if isinstance(value, range):
        return {"range": [encode(value.start), encode(value.stop), encode(value.step)]}
    if isinstance(value, complex):
        plain = complex.__pos__(value)
        return {"complex": [plain.real, plain.imag]}
    if isinstance(value, bytes):
        return {"bytes": bytes.hex(value)}
    if isinstance(value, bytearray):
        return {"bytearray": bytearray.hex(value)}
    return _encode_by_name(value)


def _encode_by_name(value: Any) -> Any:
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"[:TEXT_CAP]
    if name in ("decimal.Decimal", "fractions.Fraction"):
        return {kind.__qualname__: str(value)}
    if kind.__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        plain = value.item()  # numpy's numbers compare as numbers do
        return encode(plain) if type(plain) in (bool, int, float, complex) else {"opaque": name}
    return {"opaque": name}


def decode(data: Any) -> Any:
    """Build the value that `encode` wrote. Raises Malformed for anything else."""
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    if isinstance(data, list):
        return [decode(item) for item in data]
    if not isinstance(data, dict) or len(data) != 1:
        raise Malformed("not a value")
    ((tag, body),) = data.items()
    if tag not in _BUILD:
        raise Malformed(f"no type {tag[:40]!r}")
    try:
        return _BUILD[tag](body)
    except (TypeError, ValueError, OverflowError, ArithmeticError) as error:
        raise Malformed(f"not a {tag}: {error}") from None


def _decode_decimal(body: str) -> Any:
    from decimal import Decimal

    return Decimal(body)


def _decode_fraction(body: str) -> Any:
    from fractions import Fraction

    return Fraction(body)


_BUILD: dict[str, Any] = {
    "int": lambda body: int(body, 16),
    "text": lambda body: "".join(map(chr, body)),
    "tuple": lambda body: tuple(map(decode, body)),
    "set": lambda body: set(map(decode, body)),
    "frozenset": lambda body: frozenset(map(decode, body)),
    "dict": lambda body: {decode(key): decode(item) for key, item in body},
    "range": lambda body: range(*map(decode, body)),
    "complex": lambda body: complex(*map(float, body)),
    "bytes": lambda body: bytes.fromhex(body),
    "bytearray": lambda body: bytearray.fromhex(body),
    "Decimal": _decode_decimal,
    "Fraction": _decode_fraction,
    "opaque": lambda body: Opaque(str(body)[:TEXT_CAP]),
}


def encode_error(error: BaseException) -> dict[str, Any]:
    """Write an exception as its type's name, its built-in ancestors, its arguments and its text."""
    ancestors = [kind.__name__ for kind in type(error).__mro__ if getattr(builtins, kind.__name__, None) is kind]
    return {"type": type(error).__name__, "bases": ancestors, "args": _encode_args(error), "text": text_of(error)}


def _encode_args(error: BaseException) -> list[Any]:
    try:
        return [encode(item) for item in error.args] if isinstance(error.args, tuple) else []
    except Exception:
        return []


def text_of(error: BaseException) -> str:
    """Write an exception on one line, as a traceback's last line does, cut at TEXT_CAP."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # the candidate's own class
        text = ""
    name = type(error).__name__
    return (f"{name}: {text}" if text else name)[:TEXT_CAP]


def decode_error(data: dict[str, Any]) -> BaseException:
    """Build the exception of the nearest built-in type; its `told` is the original's text."""
    names = [name for name in data["bases"] if isinstance(name, str)]
    kinds = [kind for name in names if isinstance(kind := getattr(builtins, name, None), type)]
    kind = next((kind for kind in kinds if issubclass(kind, BaseException)), Exception)
    try:
        error = kind(*map(decode, data["args"]))
    except Exception:  # some take other arguments than they keep: UnicodeDecodeError, ExceptionGroup
        error = Exception(str(data["text"])[:TEXT_CAP])
    error.__dict__["told"] = str(data["text"])[:TEXT_CAP]
    return error


def pack(message: Any) -> bytes:
    """Build one frame. Raises TooLarge."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > MAX_FRAME:
        raise TooLarge
    return len(body).to_bytes(8, "big") + body


def unpack(body: bytes) -> Any:
    """Read a frame's body. Raises Malformed."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {type(error).__name__}") from None


def length(head: bytes) -> int:
    """Read a frame's head: the length of its body in bytes. Raises TooLarge."""
    size = int.from_bytes(head, "big")
    if size > MAX_FRAME:
        raise TooLarge
    return size


def send(fd: int, frame: bytes) -> None:
    """Write a whole frame. Raises Gone."""
    view = memoryview(frame)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except OSError as error:
            raise Gone from error


def receive(fd: int) -> Any:
    """Read one message. Raises Gone, TooLarge, Malformed."""
    return unpack(_read(fd, length(_read(fd, 8))))


def _read(fd: int, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        try:
            part = os.read(fd, min(size - len(parts), 2**20))
        except OSError as error:
            raise Gone from error
        if not part:
            raise Gone
        parts += part
    return bytes(parts)
