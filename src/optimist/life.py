"""One run of an engine, from start to end, on one event loop."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from optimist.actors.gateway.actor import Gateway
from optimist.background import Background, Loop
from optimist.messages.control import SyncMode
from optimist.messages.errors import EngineEnded, ProblemError, WrongOwner, raised


class Running(Protocol):
    """What a placement gives while it runs."""

    @property
    def gateway(self) -> Gateway | None: ...

    def check_syncs(self, mode: SyncMode) -> None: ...

    async def wait_ended(self) -> None: ...


class Life:
    """Holds a placement open in a task of its own, and knows when and why it ended."""

    def __init__(self, placement: AbstractAsyncContextManager[Running]) -> None:
        self._placement = placement
        self._gateway: Gateway | None = None
        self._running: Running | None = None
        self._started = anyio.Event()
        self._closing = anyio.CancelScope()
        self._background = Background(self._main, "optimist engine")

    @property
    def over(self) -> bool:
        """Whether it has ended, or its loop was closed under it."""
        return self._background.ended.is_set() or self._background.loop.closed

    async def started(self) -> None:
        """Return when it runs. Raises what prevented it; when cancelled, it is ended first."""
        try:
            await self._started.wait()
        except BaseException:
            self._background.cancel()
            with anyio.CancelScope(shield=True):
                await self._background.wait()
            raise
        if self._gateway is None:
            await checkpoint_if_cancelled()
            if isinstance(error := self._background.error, Exception):
                raise error
            raise EngineEnded(f"the engine ended while it started{self._cause()}")

    def gateway(self) -> Gateway:
        """The gateway, from the loop that it runs on. Raises EngineBroken, EngineEnded or WrongOwner."""
        if self._gateway is None or self.over:
            if isinstance(error := self._background.error, ProblemError):
                raise raised(error.problem)
            raise EngineEnded(f"the engine has ended{self._cause()}; start it again")
        if Loop.current() != self._background.loop:
            raise WrongOwner(
                "the engine runs on another event loop or thread; use it there, or start it here"
            )
        return self._gateway

    def running(self) -> Running:
        """What runs, from the loop that it runs on. Raises as `gateway` does."""
        self.gateway()
        assert self._running is not None
        return self._running

    async def end(self, problem: ProblemError) -> None:
        """End it in good order; open requests end with this problem. Not interrupted by cancellation."""
        if self.over or not self._here():
            return
        if self._gateway is not None:
            self._gateway.end(problem)
        self._closing.cancel()
        with anyio.CancelScope(shield=True):
            await self._background.wait()

    def abandon(self) -> None:
        """End it although nobody waits for it. From any thread."""
        self._background.loop.soon(self._closing.cancel)

    def _here(self) -> bool:
        return Loop.current() == self._background.loop

    def _cause(self) -> str:
        error = self._background.error
        if isinstance(error, Exception):
            return f" ({type(error).__name__}: {error})"
        if error is not None or self._background.loop.closed:
            return " because its event loop ended or its task was cancelled"
        return ""

    async def _main(self) -> None:
        try:
            async with self._placement as running:
                self._gateway, self._running = running.gateway, running
                self._started.set()
                with self._closing:
                    await running.wait_ended()
        finally:
            self._started.set()
            if self._gateway is not None:
                self._gateway.end(EngineEnded("the engine has ended"))
