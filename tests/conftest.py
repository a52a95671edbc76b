"""What every test gets: three event loops, the codec on in one process, and strictness."""

from __future__ import annotations

import os
from typing import Any

import pytest

os.environ.setdefault("OPTIMIST_CODEC", "always")
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(
    params=[
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
        pytest.param(("trio", {}), id="trio"),
    ]
)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param
