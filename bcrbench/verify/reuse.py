"""Checks of reuse: runs repeat, the gate's threshold arrives, and OpenGate's plumbing changes nothing.

Sources: App. G.2 "two runs agree", App. G.3 and section 4.1 (gamma = 1.0 cannot refuse), App. I (theta = 0).
"""

from __future__ import annotations

from math import isclose, log2

from bcrbench.runs.schema import Call, Gate, ItemRecord
from bcrbench.verify.alike import told, unlike
from bcrbench.verify.bench import Bench, Trial
from bcrbench.verify.finding import Finding

GAMMAS = (0.3, 0.5, 0.7, 1.0)
NOTHING = "nothing was reused, so nothing was checked; give it more items (--limit)"


def repeat(bench: Bench) -> Finding:
    """A condition run twice gives the same texts, ids, anchors and random streams on every item."""
    first = bench.trial(bench.repeat)
    differ = unlike(first, bench.run(bench.repeat))
    return Finding(
        name="repeat",
        passed=not differ,
        number=len(differ),
        unit=f"of {len(first.items)} items differ",
        expected="0",
        detail=f"{first.condition} run twice, texts, ids and pool hashes compared: {told(differ)}",
        source="App. G.2",
    )


def theta_zero(bench: Bench) -> Finding:
    """OpenGate that accepts every draft is KVComm that refuses none: draft-then-continue is single-pass generation."""
    plain, gated = bench.trial("kvcomm:gamma=1.0"), bench.trial("opengate:theta=0.0")
    differ = unlike(plain, gated)
    drafted = sum(call.draft_ids is not None for _, call in gated.calls())
    return Finding(
        name="theta-zero",
        passed=not differ and drafted > 0,
        number=len(differ),
        unit=f"of {len(plain.items)} items differ",
        expected="0",
        detail=f"theta=0 against gamma=1.0, {drafted} calls drafted: {told(differ)}" if drafted else NOTHING,
        source="App. I",
    )


def gate(bench: Bench) -> Finding:
    """The threshold that was asked for is the one in every gate record, and a lower one is never the laxer.

    Counts of rejections mostly fall as gamma rises, but need not: once two runs decide differently their pools part. Up
    to there they are the same run, so at the first difference the lower gamma must be the one that refuses.
    """
    trials = [bench.trial(f"kvcomm:gamma={gamma}") for gamma in GAMMAS]
    rejected = [sum(gate.why == "entropy" for _, _, gate in _gates(trial)) for trial in trials]
    faults = [fault for gamma, trial in zip(GAMMAS, trials) for fault in _misread(gamma, trial)]
    faults += [fault for lower, higher in zip(trials, trials[1:]) for fault in _wrong_way(lower, higher)]
    tested = [sum(gate.limit is not None for _, _, gate in _gates(trial)) for trial in trials]
    falls = all(a >= b for a, b in zip(rejected, rejected[1:]))
    shown = ", ".join(f"{a} of {b}" for a, b in zip(rejected, tested))
    detail = f"rejected {shown} at gamma {', '.join(map(str, GAMMAS))}, each read back from its gate records"
    if not falls:
        detail += "; a count rises, the pools having parted: more items will tell"
    if not all(tested):
        faults.append("no segment was tested at some gamma; give it more items (--limit)")
    return Finding(
        name="gate",
        passed=not faults and rejected[-1] == 0,
        number=rejected[-1],
        unit="rejections at gamma 1.0",
        expected="0, and fewer the higher gamma is",
        detail="; ".join([detail, *faults[:1]]),
        source="section 4.1, App. G.3",
        differs=not falls,
    )


def _gates(trial: Trial) -> list[tuple[ItemRecord, Call, Gate]]:
    return [(item, call, gate) for item, call in trial.calls() for gate in call.gate]


def _misread(asked: float, trial: Trial) -> list[str]:
    """Where a gate ran at another gamma than was asked for, or decided against its own numbers."""
    effective = trial.effective.get("gamma")
    faults = [] if effective == asked else [f"gamma={asked} was asked, the policy holds {effective}"]
    for item, call, gate in _gates(trial):
        if gate.limit is None or gate.entropy is None:
            continue
        where = f"item {item.id} agent {call.agent} segment {gate.segment}"
        if not isclose(gate.limit, asked * log2(gate.available), rel_tol=1e-9):
            faults.append(f"{where}: gamma={asked} was asked, {gate.limit / log2(gate.available):.3g} decided")
        if (gate.why == "entropy") != (asked < 1.0 and gate.entropy > gate.limit):
            faults.append(f"{where}: {gate.decision} at entropy {gate.entropy:.3g} of {gate.limit:.3g} bits")
    return faults


def _wrong_way(lower: Trial, higher: Trial) -> list[str]:
    for (item, call, strict), (_, _, lax) in zip(_gates(lower), _gates(higher)):
        if strict.decision == lax.decision:
            continue
        if strict.decision == "new":
            return []
        return [f"item {item.id} agent {call.agent}: {higher.condition} refuses what {lower.condition} accepts"]
    return []
