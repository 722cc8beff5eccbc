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
        "kvcomm": KVComm,
    },
    group="bcrbench.policies",
)
