"""What tests of the torch executor share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def strict_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One thread, and an error for every host read inside a step."""
    import torch

    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
