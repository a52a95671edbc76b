"""A loop that is called from code which holds no Python."""

from __future__ import annotations

import os
import threading

import anyio
import pytest

from optimist.transport.bell import Bell

pytestmark = pytest.mark.anyio


def rung(bell: Bell) -> None:
    """As the library does it: in another thread, by eight bytes."""
    ringing = threading.Thread(target=os.write, args=(bell.fd, (1).to_bytes(8, "little")))
    ringing.start()
    ringing.join()


async def test_every_ring_is_heard_on_the_loop() -> None:
    heard = anyio.Event()
    bell = Bell(lambda: heard.set())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bell.listen)
        for _ in range(3):
            rung(bell)
            await heard.wait()
            heard = anyio.Event()
        tasks.cancel_scope.cancel()
    bell.close()


async def test_what_rang_before_anyone_listened_is_heard_once() -> None:
    calls: list[int] = []
    bell = Bell(lambda: calls.append(threading.get_ident()))
    rung(bell)
    rung(bell)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bell.listen)
        while not calls:
            await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    bell.close()
    assert calls == [threading.get_ident()]


async def test_after_cancelling_nobody_hears() -> None:
    calls: list[int] = []
    bell = Bell(lambda: calls.append(1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bell.listen)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    rung(bell)
    await anyio.wait_all_tasks_blocked()
    assert not calls
    assert os.eventfd_read(bell.fd) == 1
    bell.close()
