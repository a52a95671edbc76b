"""The gateway's side of the client protocol: one bound ROUTER socket, frames in and out."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NamedTuple

import zmq

from optimist.messages.codec import MAX_CLIENT_BYTES
from optimist.messages.errors import MessageError, OptimistError, PeerGone
from optimist.transport.base import EndOfInbox
from optimist.transport.channel import BAD_FRAMES_AT_ONCE, bind, ignore
from optimist.transport.endpoints import CurveKeys, check_bind, remove_file, serve_curve
from optimist.transport.links import Links, Owner, send_now
from optimist.transport.readiness import SocketWaker
from optimist.transport.waker import checkpoint

HANDSHAKE_MS = 3_000
HEARTBEAT_MS = 5_000
LINGER_MS = 250
"""for the last words to clients, when the socket is closed"""


class Incoming(NamedTuple):
    """A frame of a client. identity: names its connection, and nothing beyond that."""

    identity: bytes
    frame: bytes


class Router:
    """Where clients connect. One task receives; anybody in its thread sends.

    capacity: frames that wait for one client before `send` says that it is full.
    max_bytes: a longer frame ends the connection it came on, unread.
    report: called with what is wrong when a message is dropped; must not raise. curve: encrypts, and
    lets the endpoint be other than ipc or loopback.

    A peer that says nothing is cut off after HANDSHAKE_MS, one that vanishes after a few
    HEARTBEAT_MS. Raises ConfigError when the endpoint is unsafe or taken.
    """

    def __init__(
        self,
        links: Links,
        endpoint: str,
        *,
        capacity: int = 1000,
        max_bytes: int = MAX_CLIENT_BYTES,
        report: Callable[[OptimistError], None] = ignore,
        curve: CurveKeys | None = None,
    ) -> None:
        check_bind(endpoint, curve=curve)
        self.dropped = 0
        self._requested = endpoint
        self._report = report
        self._links = links
        self._owner = Owner(f"router at {endpoint}")
        self._closed = False
        with links.making(zmq.ROUTER, self.close) as self._socket:
            self._socket.sndhwm = self._socket.rcvhwm = capacity
            self._socket.maxmsgsize = max_bytes
            self._socket.router_mandatory = True
            self._socket.linger = LINGER_MS
            self._socket.handshake_ivl = HANDSHAKE_MS
            self._socket.heartbeat_ivl = HEARTBEAT_MS
            self._socket.heartbeat_timeout = 3 * HEARTBEAT_MS
            if curve is not None:
                serve_curve(self._socket, curve)
            self._bound = bind(self._socket, endpoint)
        self._waker = SocketWaker(self._socket)

    @property
    def endpoint(self) -> str:
        """Where to connect, with the port that was taken for `*`."""
        return self._bound

    def receive_nowait(self) -> Incoming | None:
        """The next frame, or None. A message of another number of frames is dropped and counted."""
        self._owner.check()
        for _ in range(0 if self._closed else BAD_FRAMES_AT_ONCE):
            try:
                parts = self._socket.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return None
            if len(parts) == 2:
                return Incoming(parts[0], parts[1])
            self.dropped += 1
            self._report(MessageError(f"message: expected one frame, got {len(parts) - 1}"))
        return None

    async def wait(self) -> None:
        """Return when a frame is there. Cancelling loses nothing. Raises EndOfInbox when closed."""
        self._owner.check()
        if self._readable():
            await checkpoint()
        while not self._readable():
            if self._closed:
                raise EndOfInbox(self._requested)
            await self._waker.park()

    async def receive(self) -> Incoming:
        """The next frame. Cancelling loses nothing. Raises EndOfInbox when closed."""
        while (incoming := self.receive_nowait()) is None:
            await self.wait()
        return incoming

    def send(self, identity: bytes, frame: bytes) -> bool:
        """Hand a frame over, without waiting. False when this client's queue is full: keep the frame.

        Raises PeerGone when no such client is connected.
        """
        self._owner.check()
        if self._closed:
            raise PeerGone("client: the router is closed")
        try:
            return send_now(self._socket, frame, identity)
        except zmq.ZMQError as error:
            if error.errno == errno.EHOSTUNREACH:
                raise PeerGone(f"client {identity.hex()}: not connected") from None
            raise
        finally:
            # The send may have taken the readiness that the parked receiver waits for.
            if self._waker.parked and self._waker.readable():
                self._waker.wake()

    def fileno(self) -> int:
        """The descriptor that turns readable when the socket has something new to look at."""
        return int(self._socket.getsockopt(zmq.FD))

    def close(self) -> None:
        """Unbind and end; what waits for clients may leave for LINGER_MS. May be called twice."""
        if self._closed or self._owner.forked:
            return
        self._owner.check()
        self._closed = True
        self._waker.close()
        remove_file(self._requested)
        self._links.release(self._socket, linger=LINGER_MS)

    def _readable(self) -> bool:
        return not self._closed and self._waker.readable()
