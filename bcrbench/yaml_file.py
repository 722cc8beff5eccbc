"""Reading YAML that a person wrote: settings, recipes, prompt sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from bcrbench.errors import UserError


class _Loader(yaml.SafeLoader):
    """Plain values only, and each key once: YAML keeps the last of two, and nobody sees the first one go."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping; raises ConstructorError for a key that stands there twice."""
        seen: set[str | None] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key.value!r} is given twice", key.start_mark)
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else None)
        made: dict[Any, Any] = super().construct_mapping(node, deep)
        return made


def load_yaml(path: Path, what: str) -> Any:
    """The value of a YAML file; None for an empty one. Raises UserError naming the file and why it cannot be used."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506
    except OSError as error:
        raise UserError(f"{what} {path}: cannot be read ({error.strerror})") from error
    except RecursionError as error:
        raise UserError(f"{what} {path}: not YAML (nested too deeply)") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: not UTF-8, a 13th month, a number of 5,000 digits
        raise UserError(f"{what} {path}: not YAML ({' '.join(str(error).split())})") from error


def line_of(path: Path, *keys: str | int) -> int | None:
    """The line, from 1, at which the value under these keys begins; None where it cannot be found."""
    node = _at(path, keys)
    return int(node.start_mark.line) + 1 if node is not None else None


def line_of_key(path: Path, *keys: str | int) -> int | None:
    """The line, from 1, of the last of these keys itself; None where it cannot be found."""
    node = _at(path, keys[:-1])
    if isinstance(node, yaml.MappingNode):
        return next((int(key.start_mark.line) + 1 for key, _ in node.value if _names(key, keys[-1])), None)
    return line_of(path, *keys)


def _at(path: Path, keys: Sequence[str | int]) -> yaml.Node | None:
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)
    except (OSError, ValueError, yaml.YAMLError):
        return None
    for key in keys:
        node = _child(node, key)
    return node


def _names(node: yaml.Node, key: str | int) -> bool:
    return getattr(node, "value", None) == str(key)


def _child(node: yaml.Node | None, key: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int):
        return node.value[key] if key < len(node.value) else None
    if isinstance(node, yaml.MappingNode):
        return next((value for name, value in node.value if _names(name, key)), None)
    return None
