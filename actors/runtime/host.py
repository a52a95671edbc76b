"""Runs actors in one event loop, with their inboxes and refs wired to wherever the others are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from optimist.actors.base import Actor
from optimist.actors.runtime.dropped import DroppedFrames
from optimist.messages.base import ActorMessage
from optimist.messages.control import Dropped
from optimist.messages.errors import ConfigError, MailboxFull
from optimist.transport.base import Ref
from optimist.transport.channel import PullInbox, PushRef
from optimist.transport.endpoints import ipc
from optimist.transport.joint import JointInbox
from optimist.transport.links import Links
from optimist.transport.mailbox import Mailbox, MailboxRef

AnyActor = Actor[Any]
AnyInbox = Mailbox[Any] | JointInbox[Any]
Build = Callable[[str, int, "Refs"], Awaitable[AnyActor]]
"""Makes the actor of this name, with this incarnation, its refs taken from Refs."""


class Outside(NamedTuple):
    """Where actors of other processes are met: sockets in this directory, made from these links.

    line: sends to the gateway so that it arrives even if this process ends at once, where there is such a way.
    """

    links: Links
    directory: Path
    line: Callable[[ActorMessage], None] | None = None


class Host:
    """The actors of one process. here: their names. outside: None when all actors are here."""

    def __init__(self, here: Collection[str], build: Build, outside: Outside | None = None) -> None:
        self.here = frozenset(here)
        self.outside = outside
        self.actors: dict[str, AnyActor] = {}
        self._build = build
        self._dropped: Counter[str] = Counter()
        self._addresses: dict[str, MailboxRef[Any]] = {}
        self._endings: dict[str, Callable[[], None]] = {}

    async def live(self, name: str, incarnation: int, ready: Callable[[], None]) -> None:
        """One life of an actor: build it, call `ready`, run it until `end` or cancellation.

        Raises what the actor raises. Its sockets are closed on the way out.
        """
        refs = Refs(self)
        try:
            with anyio.CancelScope() as building:
                self._endings[name] = building.cancel
                actor = await self._build(name, incarnation, refs)
                await self._run(name, actor, ready)
        finally:
            del self._endings[name]
            refs.close()

    async def _run(self, name: str, actor: AnyActor, ready: Callable[[], None]) -> None:
        inbox = self._open(name, actor.accepts)
        self._addresses[name], self.actors[name] = inbox.ref(), actor
        self._endings[name] = inbox.close
        try:
            ready()
            await actor.run(inbox)
        finally:
            del self._addresses[name]
            inbox.close()

    def end(self, name: str) -> None:
        """End the present life of an actor in good order: its inbox ends behind what it was told here.

        One that is still being built is given up. Nothing happens when there is none.
        """
        if (ending := self._endings.get(name)) is not None:
            ending()

    def tell(self, name: str, message: ActorMessage) -> bool:
        """Put a message into an actor's inbox. False when the actor is not there: it is lost."""
        if (address := self._addresses.get(name)) is None:
            return False
        address.send(message)
        return True

    def take_dropped(self) -> dict[str, int]:
        """Frames on each actor's socket that were no messages, since the last call."""
        dropped, self._dropped = dict(self._dropped), Counter()
        return dropped

    def _open(self, name: str, accepts: tuple[type[ActorMessage], ...]) -> AnyInbox:
        if self.outside is None:
            return Mailbox(accepts, name=name)
        links, directory, _ = self.outside
        report = DroppedFrames(name, lambda: self._drop(name))
        remote = PullInbox(links, ipc(directory, name), accepts, report=report)
        return JointInbox(remote, accepts, name=name)

    def _drop(self, name: str) -> None:
        """Count a frame that was no message. A gateway in this process is told at once, if it can be."""
        self._dropped[name] += 1
        if "gateway" in self._addresses:
            with suppress(MailboxFull):
                self.tell("gateway", Dropped(incarnation=0, actor=name, frames=self._dropped[name]))
                del self._dropped[name]


class Refs:
    """The addresses that one life of an actor sends to. Closed when that life ends."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._open: list[PushRef[Any]] = []

    def to(self, sender: type[AnyActor], receiver: str) -> Ref[Any]:
        """Where an actor of class `sender` reaches `receiver` with what it emits to it.

        Raises ConfigError when there is nobody of this name.
        """
        if receiver in self._host.here:
            return HostRef(self._host, receiver)
        if self._host.outside is None:
            raise ConfigError(f"{sender.name}: no actor {receiver!r} to send to")
        links, directory, _ = self._host.outside
        kinds = tuple(kind for name, kind in sender.emits if name == receiver)
        ref: PushRef[Any] = PushRef(links, ipc(directory, receiver), kinds)
        self._open.append(ref)
        return ref

    def outliving(self, sender: type[AnyActor], receiver: str) -> Ref[Any]:
        """The same, but what is sent arrives even if this process ends at once, where that can be."""
        outside = self._host.outside
        if receiver in self._host.here or outside is None or outside.line is None:
            return self.to(sender, receiver)
        return LineRef(outside.line)

    def close(self) -> None:
        """Disconnect all of them."""
        while self._open:
            self._open.pop().close()


class LineRef(NamedTuple):
    """An address that is reached over the life-line."""

    line: Callable[[ActorMessage], None]

    def send(self, message: ActorMessage, /) -> None:
        """Hand the message to the system, which keeps it when this process ends; see Ref."""
        self.line(message)


class HostRef:
    """The address of an actor in this process, whichever life of it is there when one sends."""

    __slots__ = ("_host", "_name")

    def __init__(self, host: Host, name: str) -> None:
        self._host = host
        self._name = name

    def send(self, message: ActorMessage, /) -> None:
        """Hand the message over; see Ref. It is lost while the receiver is between two lives."""
        self._host.tell(self._name, message)
