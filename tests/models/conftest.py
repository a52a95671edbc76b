"""A model in a file, and a folder for its packed weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from packed_models import write_model

from optimist.kernels.native.device import NativeDevice


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "m.gguf")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "packed"


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one whenever rows of a matrix are packed."""
    found: list[int] = []
    pack = NativeDevice.pack

    def counted(self: NativeDevice, layer: int, *arguments: Any) -> None:
        found.append(layer)
        pack(self, layer, *arguments)

    monkeypatch.setattr(NativeDevice, "pack", counted)
    return found
