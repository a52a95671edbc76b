"""Messages over a connected stream socket: four bytes of length, big-endian, then msgpack.

For the life-line between a supervisor and a child process: the end of the stream says that the
other process is gone, or has let go.
"""

from __future__ import annotations

import socket
from collections import deque
from typing import TypeVar

import anyio

from optimist.messages.base import ActorMessage
from optimist.messages.codec import Codec, encode
from optimist.messages.errors import MailboxFull, MessageError
from optimist.transport.base import EndOfInbox, Inbox, InboxStatistics
from optimist.transport.readiness import FdWaker
from optimist.transport.waker import checkpoint

M = TypeVar("M", bound=ActorMessage)

MAX_WIRE_BYTES = 2**20
"""of one message, and of messages that wait because the other end does not read"""

CHUNK = 65536


class Wire(Inbox[M]):
    """One end of a socketpair. accepts: what may come from the other end.

    The socket belongs to the Wire from here on: it is made non-blocking, and closed by `close`.
    One task receives.
    """

    def __init__(
        self,
        end: socket.socket,
        accepts: tuple[type[M], ...],
        *,
        name: str = "wire",
        max_bytes: int = MAX_WIRE_BYTES,
    ) -> None:
        end.setblocking(False)
        self._name = name
        self._max_bytes = max_bytes
        self._socket = end
        self._waker = FdWaker(end.fileno())
        self._codec = Codec(accepts, max_bytes=max_bytes)
        self._frames: deque[bytes] = deque()
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._ended = False
        self._oversize = 0
        self._received = 0
        self._refused = 0

    def send(self, message: ActorMessage, /) -> None:
        """Hand the message over, without waiting; `drain` waits until it has left.

        It is lost when the other end is gone. Raises MailboxFull, and keeps nothing of it, when the
        other end has left more than the limit unread; MessageError when it is too long itself.
        """
        frame = encode(message)
        kind = type(message).__name__
        if len(frame) > self._max_bytes:
            raise MessageError(
                f"{self._name}: expected {kind} of at most {self._max_bytes} bytes, got {len(frame)}"
            )
        if len(self._outgoing) > self._max_bytes:
            raise MailboxFull(f"{self._name}: the other end does not read; no room for {kind}")
        self._outgoing += len(frame).to_bytes(4, "big") + frame
        self._write()

    async def drain(self) -> None:
        """Return when everything sent has left. Cancelling loses nothing and cuts no message."""
        await checkpoint()
        while self._write():
            await anyio.wait_writable(self._socket)

    def receive_nowait(self) -> M | None:
        """The next message, or None. Raises MessageError for a bad one, and goes on behind it."""
        if not self._frames:
            self._read()
        if not self._frames:
            if self._oversize:
                size, self._oversize = self._oversize, 0
                raise MessageError(
                    f"{self._name}: expected at most {self._max_bytes} bytes, got {size}; closed"
                )
            return None
        frame = self._frames.popleft()
        try:
            message = self._codec.decode(frame)
        except MessageError:
            self._refused += 1
            raise
        self._received += 1
        return message

    async def wait(self) -> None:
        if self._ready():
            await checkpoint()
        while not self._ready():
            if self._ended:
                raise EndOfInbox(self._name)
            self._write()
            await self._waker.park()

    async def receive(self) -> M:
        """The next message. Cancelling loses nothing. Raises EndOfInbox, and MessageError as above."""
        while (message := self.receive_nowait()) is None:
            await self.wait()
        return message

    def close(self) -> None:
        """Let go. The other end sees the end of the stream, unless a forked process holds on to it."""
        self._ended = True
        self._outgoing.clear()
        self._waker.close()
        self._socket.close()

    def statistics(self) -> InboxStatistics:
        """Counts so far. refused: bad messages. capacity: 1, there is no fixed number."""
        return InboxStatistics(len(self._frames), 1, self._received, self._refused)

    def _ready(self) -> bool:
        if not self._frames:
            self._read()
        return bool(self._frames or self._oversize)

    def _read(self) -> None:
        while not (self._ended or self._frames):
            try:
                chunk = self._socket.recv(CHUNK)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""
            self._ended = not chunk
            self._incoming += chunk
            self._split()

    def _split(self) -> None:
        while len(self._incoming) >= 4:
            size = int.from_bytes(self._incoming[:4], "big")
            if size > self._max_bytes:
                self._oversize, self._ended = size, True
                return
            if len(self._incoming) < 4 + size:
                return
            self._frames.append(bytes(self._incoming[4 : 4 + size]))
            del self._incoming[: 4 + size]

    def _write(self) -> bool:
        """Write what can be written. Returns whether something is left."""
        while self._outgoing:
            try:
                del self._outgoing[: self._socket.send(self._outgoing, socket.MSG_NOSIGNAL)]
            except BlockingIOError:
                break
            except OSError:
                self._outgoing.clear()
        return bool(self._outgoing)
