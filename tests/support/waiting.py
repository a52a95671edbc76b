"""Waiting for what no event tells. The limit says that it never came: a machine may be as slow as it likes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

LIMIT = 60.0


async def until(true: Callable[[], object], seconds: float = LIMIT) -> None:
    """Return when it is true. Raises TimeoutError when that does not come."""
    with anyio.fail_after(seconds):
        while not true():
            await anyio.sleep(0.002)


async def timed_out(wait: Callable[[], Awaitable[object]], when: Callable[[], object]) -> None:
    """Wait for something, until a time-out passes that does so as soon as `when` is true."""

    async def pass_by() -> None:
        await until(when)
        patience.deadline = anyio.current_time()

    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as patience:
            group.start_soon(pass_by)
            await wait()
