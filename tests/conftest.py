"""Marks of tests that need what a fresh machine lacks, which then skip and say why; no test is timed."""

from __future__ import annotations

import os

import hypothesis
import pytest

REAL_MODEL = "BCRBENCH_REAL_MODEL"

# Before torch is imported, here and in the processes that tests start: models this small only wait for more threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A busy machine takes longer; that is no fault of what is tested.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        reason = _missing(item)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def _missing(item: pytest.Item) -> str | None:
    if item.get_closest_marker("real_weights") and not os.environ.get(REAL_MODEL):
        return f"{REAL_MODEL} names no model"
    if item.get_closest_marker("gpu") and not _cuda():
        return "no CUDA device"
    return None


def _cuda() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture(scope="session")
def real_model() -> str:
    """The model spec that the environment names: a folder, a GGUF file or a hub id."""
    return os.environ[REAL_MODEL]
