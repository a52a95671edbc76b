"""Parking until a file descriptor is readable, on every loop, with the peculiarities of ZeroMQ's.

The descriptor of a ZeroMQ socket says that a command has arrived, not that a message has. Sending,
receiving and reading EVENTS all take the commands and with them the readiness. Hence: look at the
socket before parking, look again after waking, and, on a socket that also sends, look after every
send made while a receiver is parked.
"""

from __future__ import annotations

import asyncio

import zmq

from optimist.messages.errors import WrongOwner
from optimist.transport.waker import Waker


class FdWaker(Waker):
    """Parks the one receiver of a descriptor until it may be readable, or `wake` is called."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self._loop: asyncio.AbstractEventLoop | None = None

    def close(self) -> None:
        """Stop watching the descriptor and wake the receiver: before the descriptor is closed."""
        self._unwatch()
        self.wake()

    def _unwatch(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._loop = None

    async def _park_asyncio(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        loop.add_reader(self._fd, self.wake)
        try:
            await self._sleep(loop)
        finally:
            self._unwatch()

    async def _park_trio(self) -> None:
        import trio

        with trio.CancelScope() as scope:
            self._wake = scope.cancel
            try:
                await trio.lowlevel.wait_readable(self._fd)
            finally:
                self._wake = None


class SocketWaker(FdWaker):
    """Parks the one receiver of a ZeroMQ socket. On asyncio it watches from first use to `close`."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        super().__init__(int(socket.getsockopt(zmq.FD)))
        self._socket = socket

    def readable(self) -> bool:
        """Whether a message can be received now."""
        return bool(int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    def look(self) -> None:
        """Wake the parked receiver if there is a message: to be called after a send."""
        if self.parked and self.readable():
            self.wake()

    async def _park_asyncio(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            loop.add_reader(self._fd, self._on_command)
        elif self._loop is not loop:
            raise WrongOwner("socket: used in another event loop than before")
        await self._sleep(loop)

    def _on_command(self) -> None:
        # Reading EVENTS takes the command, so the descriptor rests until the next one.
        if self.readable():
            self.wake()
