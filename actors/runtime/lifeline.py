"""The socketpair between supervisor and child process: control messages, and the proof of life."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import TypeVar

from optimist.messages.base import ActorMessage
from optimist.messages.control import (
    Beat,
    Drain,
    Drained,
    Dropped,
    Fault,
    Hello,
    Progress,
    Ready,
    Restarted,
    Start,
    Stop,
    SyncCheck,
)
from optimist.messages.errors import MailboxFull
from optimist.messages.requests import Placed
from optimist.transport.wire import Wire

FromChild = Hello | Ready | Progress | Beat | Drained | Placed | Fault
FROM_CHILD: tuple[type[FromChild], ...] = (Hello, Ready, Progress, Beat, Drained, Placed, Fault)
ToChild = Start | Stop | Drain | Dropped | Placed | Fault | Restarted | SyncCheck
TO_CHILD: tuple[type[ToChild], ...] = (
    *(Start, Stop, Drain, Dropped),
    *(Placed, Fault, Restarted, SyncCheck),
)

DUMP_SIGNAL = signal.SIGUSR2
"""on which a child writes on stderr where each of its threads is"""

M = TypeVar("M", bound=ActorMessage)


class LifeLine(Wire[M]):
    """One end of it. Its end says that the other process is gone, or has let go."""

    def send(self, message: ActorMessage, /) -> None:
        """Hand the message over, without waiting.

        It is lost when the other end is gone, or hangs and has left too much unread: whoever hangs
        is killed for it, and must not take the other down.
        """
        with suppress(MailboxFull):
            super().send(message)
