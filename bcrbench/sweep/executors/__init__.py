"""The registry of executors: where a list of runs is carried out. A new one is one file and one line here."""

from __future__ import annotations

from bcrbench.errors import UserError, told
from bcrbench.registry import Registry
from bcrbench.sweep.executors.base import Executor, Where

EXECUTORS: Registry[Executor] = Registry(
    "executor",
    {
        "local": "bcrbench.sweep.executors.local:run",
        "ray": "bcrbench.sweep.executors.on_ray:run",
    },
    group="bcrbench.executors",
)


def checked(where: Where) -> Where:
    """The same. Raises UserError for an unknown executor, and for values that it cannot use."""
    EXECUTORS.check(where.executor)
    for name in ("address", "num_gpus", "workers"):
        value = getattr(where, name)
        if value is not None and where.executor == "local":
            option = f"--{name.replace('_', '-')}"
            raise UserError(f"{option} {value}: has no meaning for --executor local, expected another executor")
    if where.address is not None and where.address.strip() in ("", "local"):
        raise UserError(
            f"--address {told(where.address)}: expected auto or HOST:PORT; without it a local one is started"
        )
    if where.workers is not None and where.workers < 1:
        raise UserError(f"--workers {where.workers}: expected 1 or more")
    if where.num_gpus is not None and not _is_share(where.num_gpus):
        raise UserError(f"--num-gpus {where.num_gpus:g}: expected 0, a part of one, or a whole number")
    return where


def _is_share(gpus: float) -> bool:
    """Whether a run can be given so many GPUs: several are given whole."""
    return 0 <= gpus <= 1 or (gpus > 1 and gpus.is_integer())
