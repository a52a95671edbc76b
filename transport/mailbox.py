"""The inbox of an actor whose senders live in the same process: a bounded deque and a wake-up."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from optimist.messages.base import ActorMessage
from optimist.messages.codec import Codec, encode
from optimist.messages.errors import ConfigError, MailboxFull, MessageError
from optimist.transport.base import CAPACITY, RESERVE, EndOfInbox, Inbox, InboxStatistics
from optimist.transport.waker import Waker, checkpoint

M = TypeVar("M", bound=ActorMessage)


class Mailbox(Inbox[M]):
    """A bounded first-in first-out inbox in one process.

    accepts: the message classes; another class is refused with its name.
    capacity: messages that may wait; a sender beyond it has broken its credit.
    reserve: room beyond the capacity that is kept free for urgent messages.
    name: of the receiver, for errors. waker: shared with another inbox of the same receiver.

    Everything happens in one thread, that of the receiver's loop: sending from another one raises
    WrongOwner. With OPTIMIST_CODEC=always, read here, messages pass through the codec.
    """

    def __init__(
        self,
        accepts: tuple[type[M], ...],
        capacity: int = CAPACITY,
        reserve: int = RESERVE,
        *,
        name: str = "mailbox",
        waker: Waker | None = None,
    ) -> None:
        if capacity < 1 or reserve < 0:
            raise ConfigError(
                f"{name}: expected capacity >= 1 and reserve >= 0, got {capacity} and {reserve}"
            )
        self.name = name
        self._accepts = accepts
        self._capacity = capacity
        self._reserve = reserve
        self._waker = Waker() if waker is None else waker
        self._codec = Codec(accepts) if codec_always() else None
        self._messages: deque[M] = deque()
        self._received = 0
        self._refused = 0
        self._closed = False
        self._take: Callable[[M], object] | None = None
        self._at_once: tuple[type[ActorMessage], ...] = ()
        self._failure: Exception | None = None

    def ref(self) -> MailboxRef[M]:
        """The address to send to."""
        return MailboxRef(self)

    def put(self, message: M) -> None:
        """What `send` of a Ref does. After `close` the message is lost, as with any actor that ended."""
        if type(message) not in self._accepts:
            raise MessageError(
                f"{self.name}: does not accept {type(message).__name__}; "
                f"accepts {', '.join(kind.__name__ for kind in self._accepts)}"
            )
        self._waker.check_thread()
        if self._closed:
            return
        room = self._capacity + (self._reserve if message.urgent else 0)
        if len(self._messages) >= room:
            self._refused += 1
            raise MailboxFull(
                f"{self.name}: {len(self._messages)} messages wait, expected at most {room - 1} "
                f"before {type(message).__name__}"
            )
        if self._codec is not None:
            message = self._codec.decode(encode(message))
        parked = self._waker.parked and not self._messages
        if parked and self._take is not None and type(message) in self._at_once:
            self._hand_over(self._take, message)
        else:
            self._messages.append(message)
            self._waker.wake()

    def at_once(self, take: Callable[[M], object], kinds: tuple[type[ActorMessage], ...]) -> None:
        self._take, self._at_once = take, kinds

    def _hand_over(self, take: Callable[[M], object], message: M) -> None:
        self._received += 1
        try:
            take(message)
        except Exception as error:  # noqa: BLE001 - it is the receiver's, who waits
            self._take, self._failure = None, error
            self._waker.wake()

    def check(self) -> None:
        """Raise what a message that was taken at once has raised."""
        if self._failure is not None:
            raise self._failure

    def receive_nowait(self) -> M | None:
        if not self._messages:
            return None
        self._received += 1
        return self._messages.popleft()

    async def wait(self) -> None:
        if self._messages:
            await checkpoint()
        while not self.ready:
            if self._closed:
                raise EndOfInbox(self.name)
            await self._waker.park()
        self.check()

    def close(self) -> None:
        """Take no more. What waits can still be received; then `wait` raises EndOfInbox."""
        self._closed = True
        self._waker.wake()

    @property
    def waiting(self) -> int:
        """Messages that wait to be received."""
        return len(self._messages)

    @property
    def ready(self) -> bool:
        """Whether `wait` has something to say: a message, or what one has raised."""
        return bool(self._messages or self._failure)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def statistics(self) -> InboxStatistics:
        return InboxStatistics(len(self._messages), self._capacity, self._received, self._refused)


class MailboxRef(Generic[M]):
    """The address of a Mailbox. Only the Mailbox makes it."""

    __slots__ = ("_mailbox",)

    def __init__(self, mailbox: Mailbox[M]) -> None:
        self._mailbox = mailbox

    def send(self, message: M, /) -> None:
        """Hand the message over, without waiting.

        Raises MessageError for a class that is not accepted, MailboxFull beyond the capacity,
        WrongOwner in another thread than the receiver's.
        """
        self._mailbox.put(message)


def codec_always() -> bool:
    """Whether messages in one process pass through the codec. Raises ConfigError for a wrong value."""
    value = os.environ.get("OPTIMIST_CODEC", "wire")
    if value not in ("always", "wire"):
        raise ConfigError(f"OPTIMIST_CODEC: expected always or wire, got {value!r}")
    return value == "always"
