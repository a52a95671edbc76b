"""What the next step computes."""

from __future__ import annotations

import numpy as np

from optimist.actors.config import SchedulerConfig
from optimist.actors.scheduler.admission import Admission
from optimist.actors.scheduler.counters import Counters
from optimist.actors.scheduler.departures import Departures
from optimist.actors.scheduler.epoch import Epoch
from optimist.actors.scheduler.growth import Growth
from optimist.actors.scheduler.queue import Queue
from optimist.actors.scheduler.sheet import Sheet
from optimist.actors.scheduler.slots import Rows
from optimist.messages.plans import ExactPlan


class Planner:
    """Plans steps of one epoch: decode rows first, then prefill chunks, then admissions.

    Whatever the pool or the slots cannot hold now waits; but while any request could run, a plan that
    has nothing in flight before it is never empty.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        epoch: Epoch,
        queue: Queue,
        departures: Departures,
        counters: Counters,
        incarnation: int,
    ) -> None:
        self._epoch = epoch
        self._queue = queue
        self._incarnation = incarnation
        self._budget = min(config.max_batch_tokens, epoch.capacity.max_batch_tokens)
        self._max_chunk = config.max_chunk
        self._turn = 0
        self._growth = Growth(epoch, departures)
        self._admission = Admission(epoch, queue, departures, self._growth, counters)

    def plan(self) -> ExactPlan | None:
        """The next step, now in flight; None when nothing can run."""
        sheet = Sheet()
        self._decode(sheet)
        left = self._prefill(sheet, self._budget - sheet.decode.size)
        self._admit(sheet, left)
        if sheet.empty:
            return None
        flight = sheet.compose(self._epoch, self._incarnation)
        self._epoch.slots.steps[flight.slots] += 1
        self._epoch.slots.last_step[flight.slots] = flight.step
        self._epoch.slots.min_in_flight[flight.sampling] += 1
        self._epoch.slots.max_in_flight[flight.sampling] += 1
        self._epoch.flights.append(flight)
        return flight.plan

    def _decode(self, sheet: Sheet) -> None:
        rows = self._growth.grow(self._decode_rows(), sheet)
        lens = self._epoch.slots.computed[rows] + 1
        self._epoch.slots.computed[rows] = lens
        sheet.decode, sheet.decode_lens = rows, lens

    def _decode_rows(self) -> Rows:
        """Slots that may choose another token; if they are too many for a step they take turns."""
        slots = self._epoch.slots
        more = slots.settled + slots.min_in_flight < slots.token_limit
        more &= slots.settled + slots.max_in_flight < slots.ceiling
        rows = np.flatnonzero(more & slots.decoding)
        if rows.size > self._budget:
            first = int(np.searchsorted(rows, self._turn))
            rows = np.roll(rows, -first)[: self._budget]
            self._turn = int(rows[-1]) + 1
        return rows

    def _prefill(self, sheet: Sheet, budget: int) -> int:
        """Chunks of prompts already begun, best rank first; returns what is left of the budget."""
        slots = self._epoch.slots
        begun = np.flatnonzero(slots.active & ~slots.decoding).tolist()
        for slot in sorted(begun, key=lambda slot: slots.request(slot).rank):
            if budget == 0:
                break
            budget -= self._chunk(slot, sheet, budget)
        return budget

    def _admit(self, sheet: Sheet, budget: int) -> None:
        while budget and self._queue.has_ready():
            idle = sheet.empty and not self._epoch.flights
            slot = self._admission.admit(sheet, idle=idle)
            if slot is None:
                break
            budget -= self._chunk(slot, sheet, budget)

    def _chunk(self, slot: int, sheet: Sheet, budget: int) -> int:
        """Plan the next chunk of a prompt; returns its size."""
        slots = self._epoch.slots
        start, known = int(slots.computed[slot]), int(slots.settled[slot])
        end = start + min(known - start, self._max_chunk, budget)
        sheet.chunk(slot, start, end, end == known)
        slots.computed[slot] = end
        slots.decoding[slot] = end == known
        return end - start
