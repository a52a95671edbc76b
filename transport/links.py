"""The ZeroMQ context of one owner, and what is true of every socket made from it."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from types import TracebackType
from typing import Any, Self

import zmq

from optimist.messages.errors import ConfigError, WrongOwner


class Owner:
    """The process and thread that made something, and the only ones that may use it."""

    __slots__ = ("_name", "_pid", "_thread")

    def __init__(self, name: str) -> None:
        self._name = name
        self._pid = os.getpid()
        self._thread = get_ident()

    @property
    def forked(self) -> bool:
        """Whether this is a forked child of the owner."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Raise WrongOwner in a forked child or in another thread."""
        if os.getpid() != self._pid:
            raise WrongOwner(
                f"{self._name}: made in process {self._pid}, used in its forked child {os.getpid()}; "
                "sockets do not survive a fork, make them after it"
            )
        if get_ident() != self._thread:
            raise WrongOwner(
                f"{self._name}: made in thread {self._thread}, used in thread {get_ident()}; "
                "expected its owner's thread only"
            )


class Links:
    """Every socket of one owner: one context, LINGER 0 from the start, closed explicitly.

    Not shared between threads, not usable after a fork, nothing global: two engines in a process
    have two. A context manager.
    """

    def __init__(self) -> None:
        self.owner = Owner("links")
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.linger = 0
        self._sockets: set[zmq.Socket[bytes]] = set()
        self._monitors: dict[zmq.Socket[bytes], zmq.Socket[bytes]] = {}
        self._on_close: dict[zmq.Socket[bytes], Callable[[], None]] = {}
        # A context that is collected before its sockets waits for them for ever.
        self._left = weakref.finalize(self, _left, self.owner, self._context, self._sockets)
        self._left.atexit = False

    def socket(self, kind: int) -> zmq.Socket[bytes]:
        """A new socket, neither bound nor connected. Raises WrongOwner, see Owner."""
        self.owner.check()
        socket = self._context.socket(kind)
        self._sockets.add(socket)
        return socket

    @contextmanager
    def making(self, kind: int, on_close: Callable[[], None]) -> Iterator[zmq.Socket[bytes]]:
        """A new socket, for what an object does to it while it is made; released if that fails.

        on_close: closes the object and ends in `release`; called by `close`.
        """
        socket = self.socket(kind)
        try:
            yield socket
        except zmq.ZMQError as error:
            self.release(socket)
            raise ConfigError(f"socket: {error.strerror}") from error
        except BaseException:
            self.release(socket)
            raise
        self._on_close[socket] = on_close

    def monitor(self, socket: zmq.Socket[bytes], events: int) -> zmq.Socket[bytes]:
        """A socket that receives these events of another one, and is released with it."""
        monitor = socket.get_monitor_socket(events)
        self._sockets.add(monitor)
        self._monitors[socket] = monitor
        return monitor

    def release(self, socket: zmq.Socket[bytes], *, linger: int = 0) -> None:
        """Close one socket. What it has not sent in `linger` milliseconds is lost.

        Nothing happens in a forked child, nor for a socket that was released before.
        """
        if self.owner.forked or socket not in self._sockets:
            return
        self._on_close.pop(socket, None)
        if (monitor := self._monitors.pop(socket, None)) is not None:
            socket.disable_monitor()
            self._sockets.discard(monitor)
            monitor.close(linger=0)
        self._sockets.discard(socket)
        socket.close(linger=linger)

    def close(self) -> None:
        """Close every socket and the context: quick, apart from what a socket may linger.

        May be called twice. Raises WrongOwner in another thread.
        """
        if self.owner.forked:
            return
        self.owner.check()
        self._left.detach()
        for on_close in tuple(self._on_close.values()):
            on_close()
        for socket in tuple(self._sockets):
            self.release(socket)
        self._context.term()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def send_now(socket: zmq.Socket[bytes], frame: bytes, identity: bytes | None = None) -> bool:
    """Send a frame, to one of a ROUTER's peers or to whom else, without waiting.

    False when there is no room, or nobody to take it. Raises zmq.ZMQError for any other reason.
    """
    for _ in range(2):
        try:
            if identity is not None:
                socket.send(identity, zmq.DONTWAIT | zmq.SNDMORE)
            socket.send(frame, zmq.DONTWAIT)
        except zmq.Again:
            # A send notices room only about once a millisecond; reading EVENTS notices it now.
            socket.getsockopt(zmq.EVENTS)
        else:
            return True
    return False


def _left(owner: Owner, context: zmq.Context[zmq.Socket[bytes]], sockets: set[Any]) -> None:
    """What happens to links that were never closed, once nobody can reach them."""
    if owner.forked:
        return
    warnings.warn("links were never closed", ResourceWarning, stacklevel=2)
    for socket in sockets:
        socket.close(linger=0)
    context.term()
