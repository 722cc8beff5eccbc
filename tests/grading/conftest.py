from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bcrbench.errors import UserError
from bcrbench.grading.sandbox import Limits, Sandbox, open_sandbox
from bcrbench.grading.sandbox.types import LEVELS

QUICK = Limits(wall_s=6, cpu_s=1, memory_mb=512, processes=12, file_mb=4, open_files=32, output_kb=8)


@pytest.fixture(scope="session", params=LEVELS)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """A sandbox of each level that this machine has."""
    try:
        return open_sandbox(QUICK, request.param)
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def any_sandbox() -> Sandbox:
    """The best that this machine has, for what does not depend on the level."""
    return open_sandbox(QUICK)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of this test alone for the sandbox's folders, whose name its processes bear."""
    with tempfile.TemporaryDirectory(prefix="sandbox-test-") as folder:
        os.chmod(folder, 0o755)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)
        monkeypatch.undo()
