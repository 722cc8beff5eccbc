"""The paper's rows as conditions: what a run must have been, and with which gate it is preferred."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bcrbench.stats.arms import Arm
from bcrbench.stats.cells import Cell
from bcrbench.stats.condition import DEFAULTS


@dataclass(frozen=True)
class Want:
    """A row's condition. A run that lacks a `must` is another row; one that lacks a `prefer` is shown and named."""

    label: str
    name: str
    must: Mapping[str, Any] = field(default_factory=dict)
    prefer: Mapping[str, Any] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """A condition string that would fill the row."""
        wanted = {**self.prefer, **self.must}
        shown = {key: value for key, value in wanted.items() if key == "match" or DEFAULTS.get(key) != value}
        text = ",".join(f"{key}={value}" for key, value in shown.items())
        return self.name + (f":{text.replace('match=reuse:', 'match=reuse:LOG')}" if text else "")

    def fits(self, arm: Arm) -> bool:
        """Whether an arm is this row."""
        return arm.setting.name == self.name and arm.setting.has(self.must)

    def misses(self, arm: Arm) -> int:
        """How many preferences an arm does not meet."""
        return sum(not arm.setting.has({key: value}) for key, value in self.prefer.items())

    def among(self, cell: Cell) -> list[Arm]:
        """The cell's arms that fit, the preferred and plainest first."""
        fitting = [arm for arm in cell.arms if self.fits(arm)]
        return sorted(fitting, key=lambda arm: (self.misses(arm), len(arm.condition), arm.label))


_RHO = {"rho": 0.2}
_PLAIN = {"op": "recompute", "over": "all"}
_SIZES = {"B": 64, "cap": 64, "tau": 0.25}
_RELEASED = {"frame": "released", "base": "header"}


def dense() -> Want:
    """Dense, which prefills everything."""
    return Want("Dense", "dense", {"tokens": "whole"}, {"prompts": "matched"})


def token_matched() -> Want:
    """Dense on the reuse path's ids."""
    return Want("token-matched Dense", "dense", {"tokens": "merged"})


def kvcomm(gamma: float, strict: bool = False) -> Want:
    """KVComm as released; `strict` where gamma is what the table varies."""
    if strict:
        return Want("KVComm", "kvcomm", {**_RELEASED, "gamma": gamma})
    return Want("KVComm", "kvcomm", _RELEASED, {"gamma": gamma})


def opengate(theta: float) -> Want:
    """The gate on the answer's opening."""
    return Want("OpenGate", "opengate", {"theta": theta})


def policy(label: str, name: str, gamma: float) -> Want:
    """An allocation policy of Table 7."""
    return Want(label, name, {}, {"gamma": gamma, "frame": "released", "base": "header"})


def bcr(layout: str, gamma: float, select: str = "draft", **must: Any) -> Want:
    """A layout of BCR at rho 0.2 unless told otherwise."""
    name = f"bcr-{layout}"
    label = f"BCR-{layout}"
    sizes = {key: value for key, value in _SIZES.items() if key not in must}
    return Want(label, name, {**_RHO, "select": select, **_PLAIN, **must}, {"gamma": gamma, **_RELEASED, **sizes})


def cacheblend(match: str, gamma: float) -> Want:
    """A pairing of CacheBlend, `cost` or `reuse`."""
    must = {"match": "reuse:"} if match == "reuse" else {"match": "cost", **_RHO}
    return Want(f"CacheBlend, {match}-matched", "cacheblend", {**must, **_PLAIN}, {"gamma": gamma})


def grid_wants(task: str, gamma: float) -> dict[str, Want]:
    """The reference grid's conditions by the name of their row (Table 3)."""
    blend = 1.0 if task == "gsm8k" else gamma  # the mismatch of App. D
    return {
        "dense": dense(),
        "kvcomm": kvcomm(gamma),
        "blend-reuse": cacheblend("reuse", blend),
        "blend-cost": cacheblend("cost", blend),
        "chunk": bcr("chunk", gamma),
        "grow": bcr("grow", gamma),
        "single": bcr("single", gamma),
    }
