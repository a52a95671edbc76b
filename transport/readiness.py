"""Parking until a ZeroMQ socket is readable, on every loop.

The file descriptor of a ZeroMQ socket says that a command has arrived, not that a message has.
Sending, receiving and reading EVENTS all take the commands and with them the readiness. Hence:
look at the socket before parking, look again after waking, and, on a socket that also sends, look
after every send made while a receiver is parked.
"""

from __future__ import annotations

import asyncio

import zmq

from optimist.messages.errors import WrongOwner
from optimist.transport.waker import Waker


class SocketWaker(Waker):
    """Parks the one receiver of a socket until it may be readable, or `wake` is called."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        super().__init__()
        self._socket = socket
        self._fd = int(socket.getsockopt(zmq.FD))
        self._loop: asyncio.AbstractEventLoop | None = None

    def readable(self) -> bool:
        """Whether a message can be received now."""
        return bool(int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    def look(self) -> None:
        """Wake the parked receiver if there is a message: to be called after a send."""
        if self.parked and self.readable():
            self.wake()

    def close(self) -> None:
        """Stop watching the descriptor and wake the receiver: before the socket is closed."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._loop = None
        self.wake()

    async def _park_asyncio(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            loop.add_reader(self._fd, self._on_command)
        elif self._loop is not loop:
            raise WrongOwner("socket: used in another event loop than before")
        await super()._park_asyncio()

    def _on_command(self) -> None:
        # Reading EVENTS takes the command, so the descriptor rests until the next one.
        if self.readable():
            self.wake()

    async def _park_trio(self) -> None:
        import trio

        with trio.CancelScope() as scope:
            self._wake = scope.cancel
            try:
                await trio.lowlevel.wait_readable(self._fd)
            finally:
                self._wake = None
