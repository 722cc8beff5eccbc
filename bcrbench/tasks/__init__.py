"""The registry of tasks: one line a task; outside packages add theirs through `bcrbench.tasks`."""

from __future__ import annotations

from typing import Callable

from bcrbench.registry import Registry
from bcrbench.tasks.base import Task

TASKS: Registry[Callable[[], Task]] = Registry(
    "task",
    {
        "quotes": "bcrbench.tasks.quotes:Quotes",
        "copymachine": "bcrbench.tasks.copymachine:CopyMachine",
        "gsm8k": "bcrbench.tasks.gsm8k:Gsm8k",
        "mmlu": "bcrbench.tasks.mmlu:Mmlu",
        "humaneval": "bcrbench.tasks.humaneval:HumanEval",
    },
    group="bcrbench.tasks",
)
