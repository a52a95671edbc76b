"""One task on the caller's event loop that belongs to no task of the caller's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from threading import get_ident
from typing import Any, NamedTuple

import anyio

from optimist.transport.waker import on_trio


class Loop(NamedTuple):
    """An event loop and the thread it runs in."""

    loop: Any
    thread: int

    @classmethod
    def current(cls) -> Loop:
        """The one that runs the calling task. Raises RuntimeError when none does."""
        if on_trio():
            import trio

            return cls(trio.lowlevel.current_trio_token(), get_ident())
        return cls(asyncio.get_running_loop(), get_ident())

    @property
    def closed(self) -> bool:
        """Whether it can run nothing any more, not even what it left unfinished."""
        return isinstance(self.loop, asyncio.AbstractEventLoop) and self.loop.is_closed()

    def soon(self, call: Callable[[], object]) -> None:
        """Have it called on the loop, from any thread. Nothing happens when the loop has ended."""
        try:
            if isinstance(self.loop, asyncio.AbstractEventLoop):
                self.loop.call_soon_threadsafe(call)
            else:
                self.loop.run_sync_soon(call)
        except RuntimeError:
            # A closed loop says so in this way, and so does trio's; there is nobody to tell.
            return


class Background:
    """Runs `work` in a task of its own, so that it may be started in one task and ended in another.

    Test fixtures and application start-up hooks do that, and a task group must not. error: what
    `work` raised, cancellation included. The loop's end cancels it.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        self.loop = Loop.current()
        self.ended = anyio.Event()
        self.error: BaseException | None = None
        self._work = work
        self._scope = anyio.CancelScope()
        self._task: object = self._spawn(name)

    def cancel(self) -> None:
        """End it now. `wait` for it afterwards."""
        self._scope.cancel()

    async def wait(self) -> None:
        """Return when it has ended."""
        await self.ended.wait()

    def _spawn(self, name: str) -> object:
        if on_trio():
            import trio

            return trio.lowlevel.spawn_system_task(self._run, name=name)
        return asyncio.get_running_loop().create_task(self._run(), name=name)

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._work()
        except Exception as error:  # noqa: BLE001 - kept for whoever asks
            self.error = error
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.ended.set()
