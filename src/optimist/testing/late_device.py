"""LateDevice: makes any executor late, so that a missing wait shows on a CPU too."""

from __future__ import annotations

import random
import threading
from collections import deque
from typing import Protocol, Self, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor, Outcome, Progress, RowDrafts, Ticket
from optimist.actors.worker.late_drafts import sampling_slots
from optimist.messages.base import ints
from optimist.messages.batches import Batch
from optimist.testing.integer_model import IntegerExecutor

POISON = -0x0BAD
"""what a result buffer holds before its step is readable, and after it has been read"""


@runtime_checkable
class Poisonable(Protocol):
    """An executor whose KV can be spoilt, block by block."""

    def poison(self, blocks: NDArray[np.integer], /) -> None:
        """Overwrite the KV of these blocks with what no model would write."""
        ...


class LateDevice(Executor):
    """Steps run up to `lateness` submissions after they were enqueued, in order, as on a stream.

    Result buffers are poisoned until the step has run and a further delay, in seeded order, has
    passed; waiting for a ticket makes the device catch up. They are poisoned again at the next wait.
    """

    asynchronous = True

    def __init__(self, inner: Executor, *, lateness: int, seed: int) -> None:
        self.inner = inner
        self.limits = inner.limits
        self._lateness = lateness
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._clock = 0
        self._queue: deque[LateTicket | None] = deque()
        self._unread: list[LateTicket] = []
        self._last: LateTicket | None = None
        self._epoch = -1

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        """The integer model, late. Options beside its own: lateness, late_seed."""
        options = dict(config.executor_options)
        lateness, seed = int(options.pop("lateness", 2)), int(options.pop("late_seed", 0))
        inner = msgspec.structs.replace(config, executor_options=options)
        return cls(IntegerExecutor.load(inner, progress), lateness=lateness, seed=seed)

    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> Ticket:
        with self._lock:
            ticket = LateTicket(self, batch, drafts, self._due(), self._due())
            self._queue.append(ticket)
            self._unread.append(ticket)
            self._tick()
            return ticket

    def reset(self) -> None:
        with self._lock:
            self._queue.append(None)

    def close(self) -> None:
        with self._lock:
            self._queue.clear()
            self.inner.close()

    def poison(self, epoch: int, blocks: NDArray[np.integer]) -> None:
        """Spoil blocks at once, whatever is enqueued. Only while all of that is of this epoch."""
        with self._lock:
            current = all(ticket and ticket.batch.epoch == epoch for ticket in self._queue)
            if current and self._epoch == epoch and isinstance(self.inner, Poisonable):
                self.inner.poison(blocks)

    def wait_for(self, ticket: LateTicket) -> Outcome:
        """Let the device run until the ticket is readable."""
        with self._lock:
            if self._last is not None:
                _poison(self._last.buffers)
            while not ticket.run:
                self._run_next()
            if ticket in self._unread:
                self._unread.remove(ticket)
            ticket.release()
            self._last = ticket
            return ticket.buffers

    def _due(self) -> int:
        return self._clock + self._random.randint(0, self._lateness)

    def _tick(self) -> None:
        self._clock += 1
        while self._queue and (self._queue[0] is None or self._queue[0].due < self._clock):
            self._run_next()
        for ticket in [t for t in self._unread if t.run and t.visible < self._clock]:
            ticket.release()
            self._unread.remove(ticket)

    def _run_next(self) -> None:
        ticket = self._queue.popleft()
        if ticket is None:
            self.inner.reset()
        else:
            ticket.execute(self.inner)
            self._epoch = ticket.batch.epoch


class LateTicket:
    """buffers: what the host can see of the outcome. due, visible: device time of running, of showing."""

    def __init__(
        self, device: LateDevice, batch: Batch, drafts: RowDrafts | None, due: int, visible: int
    ) -> None:
        self.due, self.visible = due, max(due, visible)
        self.run = False
        self.buffers = _poisoned(batch)
        self._device = device
        self.batch = batch
        self._drafts = drafts
        self._outcome: Outcome | None = None

    def wait(self) -> Outcome:
        return self._device.wait_for(self)

    def execute(self, device: Executor) -> None:
        self._outcome = device.submit(self.batch, self._drafts).wait()
        self.run = True

    def release(self) -> None:
        assert self._outcome is not None
        tokens = self.buffers.token_ids[: len(self._outcome.token_ids)]
        self.buffers = self.buffers._replace(
            token_ids=tokens,
            logprobs=self._outcome.logprobs,
            drafts_held=self._outcome.drafts_held,
            prompt=self._outcome.prompt,
        )
        for seen, true in zip(self.buffers[:5], self._outcome[:5], strict=True):
            seen[:] = true


def _poisoned(batch: Batch) -> Outcome:
    """Buffers with room for whatever the step may bring."""
    rows = len(sampling_slots(batch))
    tokens = rows + int(ints(batch.draft_counts).sum())
    slots, generations, counts, drafts = (np.full(rows, POISON, np.int32) for _ in range(4))
    return Outcome(slots, generations, counts, np.full(tokens, POISON, np.int32), drafts, None)


def _poison(buffers: Outcome) -> None:
    for buffer in buffers[:5]:
        buffer[:] = POISON
