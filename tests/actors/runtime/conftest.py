"""Child processes find the scripted cells."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import scripted_cells


@pytest.fixture(autouse=True)
def scripted_cells_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(scripted_cells.__file__).parent), prepend=os.pathsep)
