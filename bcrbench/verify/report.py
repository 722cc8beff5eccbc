"""Making the checks one after the other; a check that breaks down has failed, and the next one still runs."""

from __future__ import annotations

from typing import Callable, Sequence

from bcrbench.errors import RunFailed
from bcrbench.verify import CHECKS
from bcrbench.verify.bench import Bench
from bcrbench.verify.finding import Finding


def make(names: Sequence[str], bench: Bench, tell: Callable[[Finding], None]) -> list[Finding]:
    """Make the named checks on a bench; `tell` hears of each as soon as it is made."""
    findings = []
    for name in names:
        findings.append(_made(name, bench))
        tell(findings[-1])
    return findings


def _made(name: str, bench: Bench) -> Finding:
    try:
        return CHECKS.get(name)(bench)
    except RunFailed as error:
        return Finding(name, False, None, "", "a run that can be carried out", f"the run failed: {error}", "")


def refuse(findings: Sequence[Finding]) -> None:
    """Raise RunFailed naming the checks that failed, if any did."""
    failed = [finding.name for finding in findings if not finding.passed]
    if failed:
        raise RunFailed(f"{len(failed)} of {len(findings)} checks failed: {', '.join(failed)}")
