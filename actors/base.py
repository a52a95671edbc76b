"""What an actor is: a name, what it accepts and emits, and what it does with one message."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

import anyio

from optimist.messages.base import ActorMessage
from optimist.transport.base import EndOfInbox, Inbox

BURST = 64
"""messages taken before others on the loop have their turn"""

EARLIER = 0.001
"""seconds by which a turn must be due before the timer ends, for the timer to be set anew"""

M = TypeVar("M", bound=ActorMessage)


class Actor(ABC, Generic[M]):
    """Behaviour behind an inbox. `receive` and `turn` decide and send, at once and without waiting.

    name: as in the message map. accepts: every message class it takes.
    emits: every (receiver, message class) it may send.
    eager: of these it takes one in its sender's turn, where both are in one loop: what comes of it goes on
    without a turn of the loop. A sender must be done with all it does when it sends one.
    incarnation: number of this life, see ActorMessage. detail: what to tell the user when it is
    ready, one line.
    """

    name: ClassVar[str]
    accepts: ClassVar[tuple[type[ActorMessage], ...]]
    emits: ClassVar[tuple[tuple[str, type[ActorMessage]], ...]]
    eager: tuple[type[ActorMessage], ...] = ()
    detail: str = ""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self._timer: anyio.CancelScope

    @property
    def drained(self) -> bool:
        """Whether it was told to finish what it has, and has finished it."""
        return False

    @property
    def busy_since(self) -> float | None:
        """Since when it waits for one piece of work that should end, in seconds of the performance counter.

        None when there is none. An actor that is busy with the same piece for too long is taken for dead.
        """
        return None

    def started(self) -> None:
        """Called once before the first message: say hello to whom it concerns."""

    @abstractmethod
    def receive(self, message: M) -> None:
        """Take one message. An unknown one is counted, never fatal."""

    def turn(self) -> float | None:
        """Called when the inbox is empty. Returns in how many seconds to be called again at the latest."""
        return None

    async def run(self, inbox: Inbox[M]) -> None:
        """Receive until the inbox ends. Policy is in `receive` and `turn`; this only waits."""
        self.started()
        if self.eager:
            inbox.at_once(self._take_at_once, self.eager)
        due = self._take_turn(inbox)
        while True:
            # One timer serves many waits: it is set anew once it has run out, or has to be earlier.
            with anyio.CancelScope(deadline=due) as self._timer:
                while due >= self._timer.deadline - EARLIER:
                    try:
                        await inbox.wait()
                    except EndOfInbox:
                        return
                    due = self._take_turn(inbox)
            if self._timer.cancelled_caught:
                due = self._take_turn(inbox)

    def _take_turn(self, inbox: Inbox[M]) -> float:
        """Take what is there, then `turn`. Returns when it wants another one, on the loop's clock."""
        for _ in range(BURST):
            if (message := inbox.receive_nowait()) is None:
                break
            self.receive(message)
        return self._next_turn()

    def _take_at_once(self, message: M) -> None:
        """Take one message that is there before `run` has waited for it."""
        self.receive(message)
        due = self._next_turn()
        if due < self._timer.deadline - EARLIER:
            self._timer.deadline = due

    def _next_turn(self) -> float:
        again = self.turn()
        return math.inf if again is None else anyio.current_time() + again
