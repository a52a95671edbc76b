"""How a request leaves its slot: at once, or when the last step that names it has settled."""

from __future__ import annotations

from optimist.actors.scheduler.counters import Counters
from optimist.actors.scheduler.epoch import Epoch
from optimist.actors.scheduler.queue import Queue


class Departures:
    """Moves requests out of slots.

    A preempted request goes back to the queue. Tokens that steps in flight bring for it are valid
    continuations: they are delivered when they settle, and only then does it wait, with all its tokens.
    A dropped request has ended; what steps in flight bring for it is thrown away.
    """

    def __init__(self, epoch: Epoch, queue: Queue, counters: Counters) -> None:
        self._epoch = epoch
        self._queue = queue
        self._counters = counters

    def preempt(self, slot: int) -> None:
        """Send the request of an active slot back to the queue, to be computed again."""
        self._counters.preemptions += 1
        self._leave(slot)

    def drop(self, slot: int) -> None:
        """The request of this slot has ended."""
        self._epoch.slots.dropped[slot] = True
        self._leave(slot)

    def promised(self) -> int:
        """Blocks that will be available when the steps in flight have settled."""
        slots, pool = self._epoch.slots, self._epoch.pool
        return sum(pool.exclusive(slots.blocks[s]) for s in slots.leaving.nonzero()[0].tolist())

    def settle(self, slot: int) -> None:
        """Give back a leaving slot and its blocks if no step in flight names it any more."""
        slots = self._epoch.slots
        if slots.steps[slot] or not slots.leaving[slot]:
            return
        wanted = not slots.dropped[slot]
        self._epoch.pool.release(slots.blocks[slot])
        self._epoch.closed.append(slot)
        self._epoch.left.append((slot, int(slots.generation[slot])))
        request = slots.close(slot)
        if wanted:
            self._queue.push(request)
            self._epoch.waiting.append(request.id)

    def _leave(self, slot: int) -> None:
        slots = self._epoch.slots
        slots.active[slot] = slots.decoding[slot] = False
        slots.leaving[slot] = True
        self.settle(slot)
