"""Parking until a file descriptor is readable, on every loop, with the peculiarities of ZeroMQ's.

The descriptor of a ZeroMQ socket says that a command has arrived, not that a message has. Sending,
receiving and reading EVENTS all take the commands and with them the readiness. Hence: look at the
socket before parking, look again after waking, and, on a socket that also sends, look after every
send made while a receiver is parked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import zmq

from optimist.transport.waker import Waker

POLLIN = int(zmq.POLLIN)
"""a plain number: the flag's own arithmetic takes as long as asking the socket"""


class FdWaker(Waker):
    """Parks the one receiver of some descriptors until one may be readable, or `wake` is called."""

    def __init__(self, *fds: int) -> None:
        super().__init__()
        self._fds = fds
        self._loop: asyncio.AbstractEventLoop | None = None

    def close(self) -> None:
        """Stop watching and wake the receiver: to be called before the descriptors are closed."""
        self._unwatch()
        self.wake()

    def _watch(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        for fd in self._fds:
            loop.add_reader(fd, callback)

    def _unwatch(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            for fd in self._fds:
                self._loop.remove_reader(fd)
        self._loop = None

    async def _park_asyncio(self) -> None:
        loop = asyncio.get_running_loop()
        self._watch(loop, self.wake)
        try:
            await self._sleep(loop)
        finally:
            self._unwatch()

    async def _park_trio(self) -> None:
        import trio

        async def watch(fd: int) -> None:
            await trio.lowlevel.wait_readable(fd)
            self.wake()

        with trio.CancelScope() as scope:
            self._wake = scope.cancel
            try:
                if len(self._fds) == 1:
                    await trio.lowlevel.wait_readable(self._fds[0])
                else:
                    async with trio.open_nursery() as nursery:
                        for fd in self._fds:
                            nursery.start_soon(watch, fd)
            finally:
                self._wake = None


class SocketWaker(FdWaker):
    """Parks the one receiver of a ZeroMQ socket, and wakes it for commands to others of it, too.

    On asyncio it watches from first use to `close`.

    silent: nothing was there when the owner last looked, and no command has come since, so there is
    still nothing. Known only while it watches, and only of a socket that never sends.
    heard: the last command has brought something to receive, which its owner has not begun to.
    """

    def __init__(self, socket: zmq.Socket[bytes], *others: zmq.Socket[bytes]) -> None:
        sockets = (socket, *others)
        super().__init__(*(int(each.getsockopt(zmq.FD)) for each in sockets))
        self._sockets = sockets
        self.silent = self.heard = False

    def found_nothing(self) -> None:
        """The owner of a socket that never sends looked, and took every command that had come."""
        self.silent = self._loop is not None

    def readable(self) -> bool:
        """Whether a message can be received now."""
        return bool(int(self._sockets[0].getsockopt(zmq.EVENTS)) & POLLIN)

    async def _park_asyncio(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._watch(loop, self._on_command)
        await self._sleep(loop)

    def _on_command(self) -> None:
        # Reading EVENTS takes the command, so that the descriptor rests until the next one.
        first, *_ = (int(socket.getsockopt(zmq.EVENTS)) for socket in self._sockets)
        self.silent, self.heard = False, bool(first & POLLIN)
        self.wake()
