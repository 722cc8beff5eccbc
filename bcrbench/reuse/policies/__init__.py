"""The registry of policies, which is that of conditions: one line each."""

from __future__ import annotations

from bcrbench.registry import Registry
from bcrbench.reuse.policies.base import CallView, Policy
from bcrbench.reuse.policies.dense import Dense
from bcrbench.reuse.policies.kvcomm import KVComm

__all__ = ["POLICIES", "CallView", "Dense", "KVComm", "Policy"]

POLICIES: Registry[type[Policy]] = Registry(
    "condition",
    {
        "dense": Dense,
        "placebo": "bcrbench.reuse.policies.placebo:Placebo",
        "kvcomm": KVComm,
        "opengate": "bcrbench.reuse.policies.opengate:OpenGate",
        "protect-root": "bcrbench.reuse.policies.protect:ProtectRoot",
        "protect-leaf": "bcrbench.reuse.policies.protect:ProtectLeaf",
        "random": "bcrbench.reuse.policies.give_up:GiveUp",
        "bcr-chunk": "bcrbench.reuse.policies.repaired:BcrChunk",
        "bcr-grow": "bcrbench.reuse.policies.repaired:BcrGrow",
        "bcr-single": "bcrbench.reuse.policies.repaired:BcrSingle",
        "cacheblend": "bcrbench.reuse.policies.repaired:CacheBlend",
    },
    group="bcrbench.policies",
)
