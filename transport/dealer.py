"""The client's side of the client protocol: one connected DEALER socket, frames in and out."""

from __future__ import annotations

import struct

import zmq

from optimist.messages.codec import MAX_CLIENT_BYTES
from optimist.messages.errors import PeerGone, WrongOwner
from optimist.transport.base import EndOfInbox
from optimist.transport.endpoints import CurveKeys, check_connect, use_curve
from optimist.transport.links import Links, Owner, send_now
from optimist.transport.readiness import SocketWaker
from optimist.transport.waker import checkpoint, running_loop

HEARTBEAT_MS = 5_000
RECONNECT_MS = 50
MAX_RECONNECT_MS = 1_000
PARTING_MS = 200
"""for the last frames to leave"""

_UP = zmq.EVENT_HANDSHAKE_SUCCEEDED
_DOWN = zmq.EVENT_DISCONNECTED
_RETRIED = zmq.EVENT_CONNECT_RETRIED


class Dealer:
    """A connection to a gateway, made again whenever it is lost. One task receives.

    Each connection is a new one to the gateway: what waited for the lost one is gone, and `receive`
    raises PeerGone once, so that its owner can say hello again.
    It belongs to the thread that made it and to the event loop that first used it: any other is
    refused with WrongOwner. max_bytes: of a frame that comes; a longer one ends the connection.
    """

    def __init__(
        self,
        links: Links,
        endpoint: str,
        *,
        capacity: int = 1000,
        max_bytes: int = 16 * MAX_CLIENT_BYTES,
        curve: CurveKeys | None = None,
    ) -> None:
        check_connect(endpoint, curve=curve)
        self.dropped = 0
        self._endpoint = endpoint
        self._capacity = capacity
        self._max_bytes = max_bytes
        self._curve = curve
        self._links = links
        self._owner = Owner(f"client of {endpoint}")
        self._loop: object = None
        self._closed = False
        self._connect()

    def _connect(self) -> None:
        # One socket for each connection, so that nothing meant for a lost one reaches the next.
        self._up = self._lost = self._over = False
        with self._links.making(zmq.DEALER, self.close) as self._socket:
            self._socket.sndhwm = self._socket.rcvhwm = self._capacity
            self._socket.maxmsgsize = self._max_bytes
            self._socket.reconnect_ivl = RECONNECT_MS
            self._socket.reconnect_ivl_max = MAX_RECONNECT_MS
            self._socket.heartbeat_ivl = HEARTBEAT_MS
            self._socket.heartbeat_timeout = 3 * HEARTBEAT_MS
            self._socket.ipv6 = self._endpoint.startswith("tcp://[")
            if self._curve is not None:
                use_curve(self._socket, self._curve)
            self._monitor = self._links.monitor(self._socket, _UP | _DOWN | _RETRIED)
            self._waker = SocketWaker(self._socket, self._monitor)
            self._socket.connect(self._endpoint)

    async def connected(self) -> None:
        """Return when there is a connection. Raises EndOfInbox when closed."""
        self._check()
        await checkpoint()
        while not self._up:
            self._watch()
            if self._over:
                self._renew()
            elif self._closed:
                raise EndOfInbox(self._endpoint)
            elif not self._up:
                await self._waker.park()

    def send(self, frame: bytes) -> bool:
        """Hand a frame over, without waiting. False when not connected, or when the queue is full."""
        self._check()
        self._watch()
        if not self._up:
            return False
        try:
            return send_now(self._socket, frame)
        finally:
            # The send may have taken the readiness that the parked receiver waits for.
            self._waker.wake()

    def receive_nowait(self) -> bytes | None:
        """The next frame, or None. A message of several frames is dropped and counted.

        Raises PeerGone once for a connection that was lost, after the frames that it brought.
        """
        self._check()
        self._watch()
        over = self._over
        while not self._closed:
            try:
                parts = self._socket.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                break
            if len(parts) == 1:
                return parts[0]
            self.dropped += 1
        if over:
            self._renew()
            raise PeerGone(f"{self._endpoint}: the connection was lost")
        return None

    async def wait(self) -> None:
        """Return when `receive_nowait` has something to say. Cancelling loses nothing.

        Raises EndOfInbox when closed.
        """
        self._check()
        if self._ready():
            await checkpoint()
        while not self._ready():
            if self._closed:
                raise EndOfInbox(self._endpoint)
            await self._waker.park()

    async def receive(self) -> bytes:
        """The next frame. Cancelling loses nothing. Raises PeerGone and EndOfInbox as above."""
        while (frame := self.receive_nowait()) is None:
            await self.wait()
        return frame

    def fileno(self) -> int:
        """The descriptor that turns readable when the socket has something new to look at."""
        return int(self._socket.getsockopt(zmq.FD))

    def close(self) -> None:
        """Disconnect and end. What was sent leaves first, if there is a connection and somebody reads.

        May be called twice.
        """
        if self._closed or self._owner.forked:
            return
        self._owner.check()
        linger = PARTING_MS if self._up else 0
        self._closed = True
        self._up = False
        self._waker.close()
        self._links.release(self._socket, linger=linger)

    def _renew(self) -> None:
        self._waker.close()
        self._links.release(self._socket)
        self._connect()

    def _check(self) -> None:
        self._owner.check()
        loop = running_loop()
        if self._loop is None:
            self._loop = loop
        elif loop is not None and loop is not self._loop:
            raise WrongOwner(f"client of {self._endpoint}: used in another event loop than before")

    def _ready(self) -> bool:
        if self._closed:
            return False
        self._watch()
        return self._over or self._waker.readable()

    def _watch(self) -> None:
        """Take what the monitor tells.

        That a connection is down comes before its last frames, that it will be tried again comes
        after them: then the connection is over.
        """
        while not self._closed:
            try:
                event, _ = self._monitor.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            kind = struct.unpack("=HI", event)[0]
            if kind == _UP:
                self._up = not self._lost
            elif kind == _DOWN:
                self._up, self._lost = False, self._lost or self._up
            elif self._lost:
                self._over = True
