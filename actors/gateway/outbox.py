"""What the gateway sends to the scheduler, and what it could not send yet."""

from __future__ import annotations

from collections import deque

from optimist.actors.gateway.journal import Entry
from optimist.messages.errors import MailboxFull
from optimist.messages.requests import Admit, Cancel, Grant
from optimist.transport.base import Ref


class Outbox:
    """Admit, Grant and Cancel for one scheduler.

    A full inbox refuses a new request, which the client is told; what belongs to a live request is
    kept and sent later, in order.
    """

    def __init__(self, scheduler: Ref[Admit | Cancel | Grant], incarnation: int) -> None:
        self._scheduler = scheduler
        self._incarnation = incarnation
        self._kept: deque[Admit | Cancel | Grant] = deque()

    def admit(self, entry: Entry) -> None:
        """Send a new request. Raises MailboxFull."""
        if self._kept:
            raise MailboxFull("scheduler: earlier messages still wait")
        self._scheduler.send(entry.admit(self._incarnation))

    def readmit(self, entry: Entry) -> None:
        """Send a live request to a scheduler that does not know it."""
        self._send(entry.admit(self._incarnation))

    def grant(self, entry: Entry) -> None:
        """Give back the credit of taken tokens, if it is worth a message."""
        if credit := entry.due():
            entry.allowed += credit
            self._send(Grant(incarnation=self._incarnation, request=entry.request, credit=credit))

    def cancel(self, request: int, keep: int | None) -> None:
        """End a request; its tokens beyond `keep` never were."""
        self._send(Cancel(incarnation=self._incarnation, request=request, keep=keep))

    def flush(self) -> None:
        """Send what was kept, as far as it goes."""
        try:
            while self._kept:
                self._scheduler.send(self._kept[0])
                self._kept.popleft()
        except MailboxFull:
            return

    def clear(self) -> None:
        """Drop what was kept: there is nobody to send it to."""
        self._kept.clear()

    def _send(self, message: Admit | Cancel | Grant) -> None:
        self._kept.append(message)
        self.flush()
