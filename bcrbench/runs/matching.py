"""What a condition is matched to: the reuse of an earlier run, read from its log (paper App. A.1 P5, App. D)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bcrbench.errors import UserError
from bcrbench.runs.log import ItemOutcome, Log, read_outcomes
from bcrbench.runs.names import safe

_ANY: Mapping[str, Any] = MappingProxyType({})


def is_rate(text: str) -> bool:
    """Whether a text is a number from 0 to 1."""
    try:
        return 0.0 <= float(text) <= 1.0
    except ValueError:
        return False


def condition_in(match: str) -> str | None:
    """The condition that `reuse:CONDITION` names, with `+` for its commas; None for a rate, a log, or anything else."""
    form, _, named = match.partition(":")
    if form != "reuse" or not named or is_rate(named) or Path(named).is_file():
        return None
    return named.replace("+", ",")


@dataclass(frozen=True)
class Reuse:
    """How much a finished run reused: reused calls of all calls."""

    reused: int
    calls: int

    @property
    def rate(self) -> float:
        """The reuse rate."""
        return self.reused / self.calls


@dataclass(frozen=True)
class Finished:
    """The finished runs of one cell in one folder."""

    folder: Path
    cell: dict[str, Any]

    def of_log(self, path: Path) -> Reuse:
        """The reuse of a log that a person named. Raises UserError when it is not complete."""
        log = read_outcomes(path)
        if log.status != "complete":
            raise UserError(f"{path}: {log.status}, expected a complete run to match against")
        return _reuse(log)

    def of_condition(self, text: str) -> Reuse:
        """The reuse of this cell's complete run of a condition, in canonical form. Raises UserError without one."""
        for path in sorted(self.folder.glob(f"*.{safe(text)[:100]}*.jsonl")):
            log = read_outcomes(path)
            if log.run.condition == text and log.run.cell == self.cell and log.status == "complete":
                return _reuse(log)
        raise UserError(f"match: no complete run of {text} on these items in {self.folder}; run that condition first")

    def of_policy(self, name: str, gamma: float, alike: Mapping[str, Any] = _ANY) -> Reuse:
        """The reuse of this cell's complete run of a policy at a gamma, with the parameters of `alike`.

        Raises UserError when there is none.
        """
        for path in sorted(self.folder.glob("*.jsonl")):
            log = read_outcomes(path)
            wanted = {**alike, "policy": name, "gamma": gamma}
            same = log.run.cell == self.cell and wanted.items() <= log.run.effective.items()
            if same and log.status == "complete":
                return _reuse(log)
        raise UserError(
            f"match: no complete {name} run at gamma={gamma}, with the same pool, of these items in {self.folder}; "
            "run that condition first"
        )


def _reuse(log: Log[ItemOutcome]) -> Reuse:
    calls = [call for item in log.items for call in item.calls]
    return Reuse(sum(call.served == "reuse" for call in calls), len(calls))
