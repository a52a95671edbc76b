"""What moving a message promises, whatever moves it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from optimist.messages.base import ActorMessage

CAPACITY = 65_536
"""messages an inbox takes by default: more than all the credit that one engine hands out, such as 256
tokens ahead for each of 256 running requests. Reaching it is a fault, not a load."""

RESERVE = 4_096
"""room beyond it for urgent messages, such as a Cancel for each live request"""

M_contra = TypeVar("M_contra", contravariant=True)
M = TypeVar("M")


class Ref(Protocol[M_contra]):
    """The address of an actor that takes messages of type M. A Ref that takes more can stand in.

    Sending never waits: whoever sends holds credit for it, so there is room. A message to an actor
    that has died is lost; its successor asks for what it needs by Resync.
    """

    def send(self, message: M_contra, /) -> None:
        """Hand the message over. Raises MailboxFull beyond the credit, MessageError for a wrong type."""
        ...


class Bundling(ABC, Generic[M]):
    """What a Ref is besides where a frame has room for several messages: one costs little more than another."""

    @abstractmethod
    def send_all(self, messages: Sequence[M], /) -> None:
        """Hand messages over in order, see `send` of a Ref."""


def send_all(ref: Ref[M], messages: Sequence[M]) -> None:
    """Hand over, in order, what one turn has made for one receiver. Raises as `send` of a Ref does."""
    if isinstance(ref, Bundling):
        ref.send_all(messages)
        return
    for message in messages:
        ref.send(message)


class InboxStatistics(NamedTuple):
    """What an inbox has seen."""

    waiting: int
    """messages that wait to be received"""
    capacity: int
    """messages it takes before an ordinary send raises"""
    received: int
    """messages handed out since the start"""
    refused: int
    """messages refused because it was full"""


class Inbox(ABC, Generic[M]):
    """Where an actor's messages wait for it. One receiver only."""

    @abstractmethod
    def receive_nowait(self) -> M | None:
        """The next message in order of arrival, or None when there is none."""

    @abstractmethod
    async def wait(self) -> None:
        """Return when a message is there. Cancelling it loses nothing. Raises EndOfInbox when closed."""

    def at_once(self, take: Callable[[M], object], kinds: tuple[type[ActorMessage], ...]) -> None:
        """Whoever waits here takes such a message of its own loop while it is sent, if none is before it.

        It saves a turn of the loop. What `take` raises comes out of `wait`, never at the sender.
        Without effect where senders are elsewhere.
        """

    @abstractmethod
    def statistics(self) -> InboxStatistics:
        """Counts so far."""


class EndOfInbox(Exception):
    """The inbox was closed and everything in it has been received."""
