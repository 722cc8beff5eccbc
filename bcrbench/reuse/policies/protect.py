"""Structural policies: one node of the graph is always prefilled (paper App. A.1 P3, P4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bcrbench.reuse.policies.base import CallView, setting
from bcrbench.reuse.policies.kvcomm import KVComm
from bcrbench.runs.schema import Served


@dataclass(frozen=True)
class ProtectRoot(KVComm):
    """Prefills agents that hear nobody; the rest is KVComm."""

    summary: ClassVar[str] = "the entry node is always prefilled"
    source: ClassVar[str] = "section 4.2, App. A.1 P3"

    def protects(self, view: CallView) -> bool:
        """Whether the call is the protected node's."""
        return not view.hears

    def decide(self, view: CallView) -> tuple[Served, str]:
        """Dense at the protected node, else as KVComm."""
        return ("dense", "protected") if self.protects(view) and not view.new else super().decide(view)


@dataclass(frozen=True)
class ProtectLeaf(ProtectRoot):
    """Prefills the deepest node, which is the deciding one, or any other that `protect` names."""

    summary: ClassVar[str] = "the deciding node, or protect=NODE, is always prefilled"
    source: ClassVar[str] = "section 4.2, App. A.1 P4"
    protect: str = setting("0", told="a node: 0 decides, 1 to 5 work")

    def protects(self, view: CallView) -> bool:
        """Whether the call is the protected node's."""
        return view.agent == self.protect
