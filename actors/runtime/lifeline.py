"""The socketpair between supervisor and child process: control messages, and the proof of life.

A message is four bytes of length, big-endian, and its msgpack. The end of the stream says that the
other process is gone, or has let go.
"""

from __future__ import annotations

import socket
from collections import deque
from typing import TypeVar

import anyio

from optimist.messages.base import ActorMessage
from optimist.messages.codec import Codec, encode
from optimist.messages.control import (
    Beat,
    Drain,
    Fault,
    Hello,
    Progress,
    Ready,
    Restarted,
    Start,
    Stop,
)
from optimist.messages.errors import MessageError
from optimist.transport.base import EndOfInbox, Inbox, InboxStatistics

FromChild = Hello | Ready | Progress | Beat | Fault
FROM_CHILD: tuple[type[FromChild], ...] = (Hello, Ready, Progress, Beat, Fault)
ToChild = Start | Stop | Drain | Fault | Restarted
TO_CHILD: tuple[type[ToChild], ...] = (Start, Stop, Drain, Fault, Restarted)

MAX_BYTES = 2**20
"""of one message, and of messages that wait because the other end does not read"""

M = TypeVar("M", bound=ActorMessage)


class LifeLine(Inbox[M]):
    """One end of the socketpair. accepts: what may come from the other end.

    The socket belongs to the LifeLine from here on: it is made non-blocking, and closed by `close`.
    """

    def __init__(self, end: socket.socket, accepts: tuple[type[M], ...]) -> None:
        end.setblocking(False)
        self._socket = end
        self._codec = Codec(accepts, max_bytes=MAX_BYTES)
        self._messages: deque[M] = deque()
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._ended = False
        self._received = 0
        self._refused = 0

    def send(self, message: ActorMessage) -> None:
        """Hand the message over, without waiting.

        It is lost when the other end is gone, or has left MAX_BYTES unread.
        """
        frame = encode(message)
        if len(self._outgoing) + len(frame) > MAX_BYTES:
            self._refused += 1
            return
        self._outgoing += len(frame).to_bytes(4, "big") + frame
        try:
            del self._outgoing[: self._socket.send(self._outgoing)]
        except BlockingIOError:
            pass
        except OSError:
            self._outgoing.clear()

    def receive_nowait(self) -> M | None:
        """See Inbox. Raises MessageError for what is no control message of this direction."""
        if not self._messages:
            self._read()
        if not self._messages:
            return None
        self._received += 1
        return self._messages.popleft()

    async def wait(self) -> None:
        """See Inbox. Raises MessageError for what is no control message of this direction."""
        while not self._messages:
            self._read()
            if self._messages:
                return
            if self._ended:
                raise EndOfInbox("life-line")
            await anyio.wait_readable(self._socket)

    def close(self) -> None:
        """Let go. The other end sees the end of the stream, unless a forked process holds on to it."""
        self._ended = True
        self._socket.close()

    def statistics(self) -> InboxStatistics:
        return InboxStatistics(len(self._messages), MAX_BYTES, self._received, self._refused)

    def _read(self) -> None:
        while not self._ended:
            try:
                chunk = self._socket.recv(65536)
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
            if size > MAX_BYTES:
                raise MessageError(f"life-line: expected at most {MAX_BYTES} bytes, got {size}")
            if len(self._incoming) < 4 + size:
                return
            frame = bytes(self._incoming[4 : 4 + size])
            del self._incoming[: 4 + size]
            self._messages.append(self._codec.decode(frame))
