"""Messages between processes: PUSH to PULL, one direction on each socket, decoded on arrival."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import zmq

from optimist.messages.base import ActorMessage
from optimist.messages.codec import MAX_ACTOR_BYTES, Codec, bundle, encode
from optimist.messages.errors import ConfigError, MailboxFull, MessageError, OptimistError
from optimist.transport.base import CAPACITY, Bundling, EndOfInbox, Inbox, InboxStatistics
from optimist.transport.endpoints import (
    CurveKeys,
    check_bind,
    check_connect,
    remove_file,
    serve_curve,
    use_curve,
)
from optimist.transport.links import Links, Owner, send_now
from optimist.transport.readiness import SocketWaker
from optimist.transport.waker import checkpoint

M = TypeVar("M", bound=ActorMessage)

RECONNECT_MS = 10
BAD_FRAMES_AT_ONCE = 64
DRAIN_EVERY = 64
BUNDLE_BYTES = 5
"""of a frame with several messages, beside theirs"""


def ignore(error: OptimistError) -> None:
    """A report callback that drops the report: the frame is counted all the same."""


class PullInbox(Inbox[M]):
    """The inbox of an actor whose senders live in other processes: one bound PULL socket.

    accepts: the message classes; anything else on the socket is dropped, counted and reported.
    capacity: messages that may wait here for each sender, roughly: ZeroMQ counts them in batches, so
    credit is what bounds senders. max_bytes: a longer frame ends the connection it came on, unread.
    report: called with what is wrong with each dropped frame; must not raise.

    Used only in the thread that made it. Raises ConfigError when the endpoint is unsafe or taken.
    """

    def __init__(
        self,
        links: Links,
        endpoint: str,
        accepts: tuple[type[M], ...],
        *,
        capacity: int = CAPACITY,
        max_bytes: int = MAX_ACTOR_BYTES,
        report: Callable[[OptimistError], None] = ignore,
        curve: CurveKeys | None = None,
    ) -> None:
        check_bind(endpoint, curve=curve)
        self.dropped = 0
        self._endpoint = endpoint
        self._codec = Codec(accepts, max_bytes=max_bytes)
        self._capacity = capacity
        self._report = report
        self._links = links
        self._owner = Owner(f"inbox at {endpoint}")
        self._received = 0
        self._there: deque[M] = deque()
        """messages that came in one frame with the last one that was received"""
        self._closed = False
        with links.making(zmq.PULL, self.close) as self._socket:
            self._socket.rcvhwm = capacity
            self._socket.maxmsgsize = max_bytes
            if curve is not None:
                serve_curve(self._socket, curve)
            self._bound = bind(self._socket, endpoint)
        self.waker = SocketWaker(self._socket)

    @property
    def endpoint(self) -> str:
        """Where to connect, with the port that was taken for `*`."""
        return self._bound

    def receive_nowait(self) -> M | None:
        self._owner.check()
        for _ in range(BAD_FRAMES_AT_ONCE):
            if self._there:
                self._received += 1
                return self._there.popleft()
            # Asked first: that there is nothing is the usual end, and an exception costs far more.
            if not self.readable:
                return None
            self.waker.heard = False
            try:
                frame = self._socket.recv(zmq.DONTWAIT)
            except zmq.Again:
                return None
            try:
                self._there.extend(self._decode(frame))
            except OptimistError as error:
                self.dropped += 1
                self._report(error)
        return None

    def _decode(self, frame: bytes) -> list[M]:
        extra = 0
        while self._socket.getsockopt(zmq.RCVMORE):
            self._socket.recv(zmq.DONTWAIT)
            extra += 1
        if extra:
            raise MessageError(f"message: expected one frame, got {extra + 1}")
        return self._codec.decode_all(frame)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def readable(self) -> bool:
        """Whether a message is there, or a frame, good or bad."""
        if self._there or (self.waker.heard and not self._closed):
            return True
        if self._closed or self.waker.silent:
            return False
        if not self.waker.readable():
            self.waker.found_nothing()
            return False
        return True

    async def wait(self) -> None:
        self._owner.check()
        if self.readable:
            await checkpoint()
        while not self.readable:
            if self._closed:
                raise EndOfInbox(self._endpoint)
            await self.waker.park()

    def close(self) -> None:
        """Unbind and end. What has not been received is lost. May be called twice."""
        if self._closed or self._owner.forked:
            return
        self._owner.check()
        self._closed = True
        self._there.clear()
        self.waker.close()
        remove_file(self._endpoint)
        self._links.release(self._socket)

    def statistics(self) -> InboxStatistics:
        """Counts so far. waiting is 0: what waits in the socket cannot be counted."""
        return InboxStatistics(0, self._capacity, self._received, self.dropped)


class PushRef(Bundling[M]):
    """The address of an actor in another process: one connected PUSH socket.

    accepts: the message classes of the receiver; another class is refused with its name.
    capacity: messages that may be on their way at once; some more fit.

    What is sent before the receiver listens waits for it. While it is dead, messages wait up to the
    capacity for its successor, and beyond that they are lost and counted: a dead receiver never
    makes a sender fail, its successor asks by Resync. A receiver that lives and does not read fails
    the sender with MailboxFull, because its credit should have stopped it earlier.
    Used only in the thread that made it.
    """

    def __init__(
        self,
        links: Links,
        endpoint: str,
        accepts: tuple[type[M], ...],
        *,
        capacity: int = CAPACITY,
        max_bytes: int = MAX_ACTOR_BYTES,
        curve: CurveKeys | None = None,
    ) -> None:
        check_connect(endpoint, curve=curve)
        self.lost = 0
        self._endpoint = endpoint
        self._accepts = accepts
        self._max_bytes = max_bytes
        self._links = links
        self._owner = Owner(f"ref to {endpoint}")
        self._closed = False
        self._connected = False
        self._sent = 0
        with links.making(zmq.PUSH, self.close) as self._socket:
            # Room is given back in halves of the mark, so that only half of it is certain.
            self._socket.sndhwm = 2 * capacity
            self._socket.reconnect_ivl = RECONNECT_MS
            if curve is not None:
                use_curve(self._socket, curve)
            self._monitor = links.monitor(
                self._socket, zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
            )
            self._socket.connect(endpoint)

    @property
    def connected(self) -> bool:
        """Whether the receiver's process is there, as far as the connection tells."""
        while True:
            try:
                event, _ = self._monitor.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return self._connected
            self._connected = _event(event) == zmq.EVENT_HANDSHAKE_SUCCEEDED

    def send(self, message: M, /) -> None:
        """Hand the message over, without waiting.

        Raises MessageError for a class that is not accepted or a message that is too long,
        MailboxFull when a living receiver does not read, WrongOwner in another thread or process.
        """
        self.send_all((message,))

    def send_all(self, messages: Sequence[M], /) -> None:
        """The same for several, in as few frames as hold them. Of a bad one's, none is sent."""
        self._owner.check()
        for message in messages:
            if type(message) not in self._accepts:
                raise MessageError(
                    f"{self._endpoint}: does not accept {type(message).__name__}; "
                    f"accepts {', '.join(kind.__name__ for kind in self._accepts)}"
                )
        if self._closed:
            self.lost += len(messages)
            return
        for frames in self._shares([self._encoded(message) for message in messages]):
            self._hand_over(frames, type(messages[0]).__name__)

    def _encoded(self, message: M) -> bytes:
        frame = encode(message)
        if len(frame) > self._max_bytes:
            raise MessageError(
                f"{type(message).__name__}: expected at most {self._max_bytes} bytes, "
                f"got {len(frame)}"
            )
        return frame

    def _shares(self, frames: list[bytes]) -> Iterator[list[bytes]]:
        """What goes together: as much as the receiver takes at once."""
        share: list[bytes] = []
        size = BUNDLE_BYTES
        for frame in frames:
            if share and size + len(frame) > self._max_bytes:
                yield share
                share, size = [], BUNDLE_BYTES
            share.append(frame)
            size += len(frame)
        if share:
            yield share

    def _hand_over(self, frames: list[bytes], kind: str) -> None:
        self._sent += 1
        if self._sent % DRAIN_EVERY == 0:
            # Events that nobody takes would block the thread of ZeroMQ after a thousand restarts.
            self.connected  # noqa: B018
        if send_now(self._socket, bundle(frames)):
            return
        if self.connected:
            raise MailboxFull(
                f"{self._endpoint}: the receiver lives and does not read; no room for {kind}"
            )
        self.lost += len(frames)

    def close(self) -> None:
        """Disconnect. What has not left is lost, and so is what is sent later. May be called twice."""
        if self._closed or self._owner.forked:
            return
        self._owner.check()
        self._closed = True
        self._links.release(self._socket)


def bind(socket: zmq.Socket[bytes], endpoint: str) -> str:
    """Bind and return where. Raises ConfigError with the reason why not."""
    try:
        socket.ipv6 = endpoint.startswith("tcp://[")
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        raise ConfigError(f"{endpoint}: cannot listen: {error.strerror}") from error
    return bytes(socket.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()


def _event(frame: bytes) -> int:
    return int(struct.unpack("=HI", frame)[0])
