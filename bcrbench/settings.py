"""One configuration for every command: defaults < bcrbench.yaml < recipe < flags, validated once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Iterable, Mapping

import msgspec

from bcrbench.errors import UserError, told, unknown
from bcrbench.yaml_file import load_yaml

FILE = "bcrbench.yaml"

_Count = Annotated[int, msgspec.Meta(ge=1)]
_Threads = Annotated[int, msgspec.Meta(ge=1, le=1024)]  # PyTorch crashes on what a machine cannot start
_Ids = Annotated[list[str], msgspec.Meta(min_length=1)]
_Path = Annotated[str, msgspec.Meta(min_length=1)]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a run is made of, besides its condition. Names are those of the command line's options."""

    task: str = "quotes"
    data: str | None = None
    model: str = "bundled"
    agents: Annotated[int, msgspec.Meta(ge=1, le=5)] = 3
    topology: str = "full"
    roles: str = "cycle"
    prompts: str | None = None
    limit: _Count | None = None
    ids: _Ids | None = None
    order: str = "task"
    grader: str | None = None
    retrieval: _Path | None = None
    allow_code_execution: bool = False
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    device: str = "auto"
    dtype: str = "auto"
    kernel: str = "auto"
    threads: _Threads | None = None
    max_new_tokens: _Count | None = None
    twins: bool | None = None
    warm_up: Annotated[int, msgspec.Meta(ge=0)] | None = None
    out: _Path = "runs"


def resolve(layers: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[Settings, dict[str, Any]]:
    """Merge layers of (where it came from, values), later ones winning; returns the settings and what was given.

    Raises UserError naming the source, the field, its value and what was expected.
    """
    given: dict[str, Any] = {}
    for source, values in layers:
        check_values(source, values)
        given |= values
    return msgspec.convert(given, Settings), given


def check_values(source: str, values: Mapping[str, Any]) -> None:
    """Raise UserError, naming the source, for an unknown setting and for a value that it cannot have."""
    known = Settings.__struct_fields__
    for name, value in values.items():
        if name not in known:
            raise unknown(f"setting in {source}", str(name), known)
        try:
            msgspec.convert({name: value}, Settings)
        except msgspec.ValidationError as error:
            reason = str(error).partition(" - at ")[0]
            raise UserError(f"{source}: {name}={told(value)}: {reason[:1].lower()}{reason[1:]}") from error
        for text in value if isinstance(value, list) else [value]:
            check_text(f"{source}: {name}", text)


def check_text(what: str, text: object) -> None:
    """Raise UserError for text that no file can be named by and no log can hold; other values pass."""
    if not isinstance(text, str):
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{what}={told(text)}: expected text that UTF-8 can hold") from error
    if "\0" in text:
        raise UserError(f"{what}={told(text)}: expected text without NUL characters")


def read_yaml(path: Path, what: str) -> dict[str, Any]:
    """Read a YAML mapping. Raises UserError naming the file and why it cannot be used."""
    raw = load_yaml(path, what)
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise UserError(f"{what} {path}: {type(raw).__name__}, expected a mapping of settings")
    return raw


def from_folder(folder: Path | None = None) -> dict[str, Any]:
    """Settings of the working folder's bcrbench.yaml; empty when there is none."""
    path = folder / FILE if folder else Path(FILE)
    return read_yaml(path, "configuration") if os.path.lexists(path) else {}


def from_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that were typed on the command line: those that are not None, with lists split."""
    given = {name: value for name, value in flags.items() if value is not None and name != "dry_run"}
    if "ids" in given:
        given["ids"] = [part.strip() for part in given["ids"].split(",") if part.strip()]
    return given
