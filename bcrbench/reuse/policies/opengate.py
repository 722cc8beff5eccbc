"""OpenGate: decide from the first generated tokens (paper App. A.1 P2, App. I)."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

import torch

from bcrbench.engine.decode import most_likely
from bcrbench.repair.view import RepairView, Start
from bcrbench.reuse.policies.base import setting
from bcrbench.reuse.policies.kvcomm import KVComm


@dataclass(frozen=True)
class OpenGate(KVComm):
    """Serve from the assembled cache, generate k tokens, and keep them when their mean top-1 probability reaches
    theta; else the call is prefilled. The entropy gate is off (gamma 1.0): this gate takes its place.
    """

    summary: ClassVar[str] = "a gate on the answer's opening: k tokens of mean confidence theta, else a prefill"
    source: ClassVar[str] = "section 4.1, App. A.1 P2, App. I"
    gamma: float = setting(1.0, 0.0, 1.0)
    theta: float = setting(0.5, 0.0, 1.0, shown=True)
    k: int = setting(2, 1, 8)

    def start(self, view: RepairView) -> Start:
        """Draft and keep, or refuse. Tokens after a stop token are not drawn."""
        stops = view.runtime.stop_ids()
        ids: list[int] = []
        confidence: list[float] = []
        token = view.ids[-1]
        with view.stage("first_token"):
            while len(ids) < self.k and (not ids or ids[-1] not in stops):
                logits = view.runtime.run([token], [view.rows + len(ids)], view.cache)
                token = most_likely(logits)
                ids.append(token)
                confidence.append(float(torch.softmax(logits, dim=-1)[token]))
        trusted = fmean(confidence) >= self.theta
        refused = None if trusted else f"opengate-reject:{fmean(confidence):.4f}"
        return Start(ids, draft_ids=ids, refused=refused)
