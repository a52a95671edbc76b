"""Waiting for what no event tells. The limit says that it never came: a machine may be as slow as it likes."""

from __future__ import annotations

from collections.abc import Callable

import anyio

LIMIT = 60.0


async def until(true: Callable[[], object], seconds: float = LIMIT) -> None:
    """Return when it is true. Raises TimeoutError when that does not come."""
    with anyio.fail_after(seconds):
        while not true():
            await anyio.sleep(0.002)
