"""What the tests of several tasks share."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stands for the package `datasets`; its `calls` lists what was asked of it, `rows` is what it gives."""
    fake = SimpleNamespace(calls=[], rows=[], error=None)

    def load_dataset(*args: Any, **kwargs: Any) -> Any:
        fake.calls.append((args, kwargs))
        if fake.error:
            raise fake.error
        return fake.rows

    fake.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", fake)
    return fake
