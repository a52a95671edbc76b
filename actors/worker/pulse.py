"""Wakes tasks that wait for something to change."""

from __future__ import annotations

import anyio


class Pulse:
    """One thread: that of the loop. Check, wait, and check again."""

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def beat(self) -> None:
        """Something changed: wake everybody who waits."""
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        """Return at the next beat."""
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()
