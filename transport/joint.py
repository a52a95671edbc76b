"""One inbox for an actor whose senders live partly in its process and partly in others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from optimist.messages.base import ActorMessage
from optimist.transport.base import CAPACITY, RESERVE, EndOfInbox, Inbox, InboxStatistics
from optimist.transport.channel import PullInbox
from optimist.transport.mailbox import Mailbox, MailboxRef
from optimist.transport.waker import checkpoint

M = TypeVar("M", bound=ActorMessage)


class JointInbox(Inbox[M]):
    """Merges a Mailbox, made here, with a PullInbox. Ends when both do.

    Messages of one sender keep their order; the two sources take turns.
    """

    def __init__(
        self,
        remote: PullInbox[M],
        accepts: tuple[type[M], ...],
        capacity: int = CAPACITY,
        reserve: int = RESERVE,
        *,
        name: str = "mailbox",
    ) -> None:
        self._remote = remote
        self._local = Mailbox(accepts, capacity, reserve, name=name, waker=remote.waker)
        self._local_first = True

    def ref(self) -> MailboxRef[M]:
        """The address for senders in this process."""
        return self._local.ref()

    def receive_nowait(self) -> M | None:
        if not self._local.waiting:
            return None if self._remote.waker.silent else self._remote.receive_nowait()
        self._local_first = not self._local_first
        if self._local_first or (message := self._remote.receive_nowait()) is None:
            return self._local.receive_nowait()
        return message

    def at_once(self, take: Callable[[M], object], kinds: tuple[type[ActorMessage], ...]) -> None:
        self._local.at_once(take, kinds)

    async def wait(self) -> None:
        if self._ready():
            await checkpoint()
        while not self._ready():
            if self._local.closed and self._remote.closed:
                raise EndOfInbox(self._local.name)
            await self._remote.waker.park()
        self._local.check()

    def _ready(self) -> bool:
        return self._local.ready or self._remote.readable

    def close(self) -> None:
        """Close both. What waits in the mailbox can still be received; then `wait` raises."""
        self._local.close()
        self._remote.close()

    def statistics(self) -> InboxStatistics:
        """Both together. waiting counts the messages of this process only."""
        local, remote = self._local.statistics(), self._remote.statistics()
        return InboxStatistics(*(a + b for a, b in zip(local, remote, strict=True)))
