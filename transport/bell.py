"""Calling something on a loop from code that holds no Python, by a write to a descriptor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Never

from optimist.transport.waker import on_trio


class Bell:
    """Calls `heard` on the loop, in the task that listens, after eight bytes were written to `fd`, an eventfd.

    It may call once for several writes. Whoever made it must `close` it, when nobody writes any more.
    """

    def __init__(self, heard: Callable[[], object]) -> None:
        self._heard = heard
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    async def listen(self) -> None:
        """Until cancelled."""
        if on_trio():
            await self._listen_trio()
        loop = asyncio.get_running_loop()
        loop.add_reader(self.fd, self._ring)
        try:
            await loop.create_future()
        finally:
            loop.remove_reader(self.fd)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)

    async def _listen_trio(self) -> Never:
        import trio

        while True:
            await trio.lowlevel.wait_readable(self.fd)
            self._ring()

    def _ring(self) -> None:
        os.eventfd_read(self.fd)
        self._heard()
