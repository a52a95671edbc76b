"""What tests of executors share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from optimist.kernels.native.library import FORCED, here, missing


@pytest.fixture
def strict_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One thread, and an error for every host read inside a step."""
    import torch

    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(params=[] if missing() else here())
def every_set(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """An instruction set of this machine, one after the other, that computes in place of the best."""
    found: str = request.param
    monkeypatch.setenv(FORCED, found)
    return found
