"""Parking one task until another wakes it, in the way of the loop that runs it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from threading import get_ident

from optimist.messages.errors import WrongOwner


def on_trio() -> bool:
    """Whether the running task is trio's. The other answer is asyncio, with uvloop or without."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_task())


def running_loop() -> object:
    """What stands for the running event loop, or None outside of one."""
    if on_trio():
        import trio

        return trio.lowlevel.current_trio_token()
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def from_threads() -> Callable[[Callable[[], object]], object]:
    """How another thread makes the running loop call something soon, as long as the loop runs."""
    if on_trio():
        import trio

        return trio.lowlevel.current_trio_token().run_sync_soon
    return asyncio.get_running_loop().call_soon_threadsafe


async def checkpoint() -> None:
    """Give others on the loop their turn, and take a cancellation that is due."""
    if on_trio():
        import trio

        await trio.lowlevel.checkpoint()
    else:
        await asyncio.sleep(0)


class Waker:
    """Parks the one receiver of an inbox until it is woken from the same thread.

    The event loop of the first `park` is the only one.
    """

    def __init__(self) -> None:
        self._wake: Callable[[], object] | None = None
        self._thread: int | None = None
        self._token: object = None

    @property
    def parked(self) -> bool:
        """Whether a task is parked."""
        return self._wake is not None

    def check_thread(self) -> None:
        """Raise WrongOwner when called from another thread than the one that parked here first."""
        if self._thread is not None and self._thread != get_ident():
            raise WrongOwner("inbox: used from another thread than the one its receiver runs in")

    def wake(self) -> None:
        """Let the parked task go on. Nothing happens when there is none."""
        if self._wake is not None:
            self._wake()

    async def park(self) -> None:
        """Return after `wake`, perhaps for no reason: look again. Cancelling leaves nothing behind.

        Raises WrongOwner when another task is parked, or in another event loop than before.
        """
        if self._wake is not None:
            raise WrongOwner("inbox: a second task waits for it; expected one receiver")
        token = running_loop()
        if self._token is None:
            self._token, self._thread = token, get_ident()
        elif self._token is not token:
            raise WrongOwner("inbox: used in another event loop than before")
        if on_trio():
            await self._park_trio()
        else:
            await self._park_asyncio()

    async def _park_asyncio(self) -> None:
        await self._sleep(asyncio.get_running_loop())

    async def _sleep(self, loop: asyncio.AbstractEventLoop) -> None:
        future = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        self._wake = wake
        try:
            await future
        finally:
            self._wake = None

    async def _park_trio(self) -> None:
        import trio

        task = trio.lowlevel.current_task()

        def wake() -> None:
            self._wake = None
            trio.lowlevel.reschedule(task)

        def abort(_: object) -> trio.lowlevel.Abort:
            self._wake = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._wake = wake
        await trio.lowlevel.wait_task_rescheduled(abort)
