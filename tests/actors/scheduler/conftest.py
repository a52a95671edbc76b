"""Depths that most behaviours must not depend on."""

from __future__ import annotations

import pytest


@pytest.fixture(params=[1, 2], ids=["depth1", "depth2"])
def depth(request: pytest.FixtureRequest) -> int:
    value: int = request.param
    return value
