"""One lazy registry for everything that is chosen by name (tasks, policies, graders, topologies)."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Generic, TypeVar, cast

from bcrbench.errors import unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """Names mapped to factories, given as objects or as lazy "module:attribute" strings.

    `group` names an entry-point group through which outside packages may add entries.
    """

    def __init__(self, kind: str, entries: dict[str, T | str], group: str | None = None) -> None:
        self.kind = kind
        self._entries: dict[str, T | str] = dict(entries)
        self._group = group

    def names(self) -> list[str]:
        """All known names, sorted; names from entry points included."""
        return sorted({*self._entries, *self._outside()})

    def check(self, name: str) -> None:
        """Raise UserError, as `get` does, for an unknown name; imports nothing."""
        if name not in self._entries and name not in self._outside():
            raise unknown(self.kind, name, self.names())

    def get(self, name: str) -> T:
        """Return the entry; raises UserError with the nearest match for an unknown name."""
        found = self._entries.get(name)
        if found is None:
            found = self._outside().get(name)
        if found is None:
            raise unknown(self.kind, name, self.names())
        if isinstance(found, str):
            module, _, attribute = found.partition(":")
            found = getattr(import_module(module), attribute)
            self._entries[name] = cast(T, found)
        return cast(T, found)

    def _outside(self) -> dict[str, str]:
        if self._group is None:
            return {}
        return {point.name: point.value for point in entry_points(group=self._group)}
