"""What the next step computes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.actors.config import SchedulerConfig
from optimist.actors.scheduler.admission import Admission
from optimist.actors.scheduler.counters import Counters
from optimist.actors.scheduler.departures import Departures
from optimist.actors.scheduler.draft_length import DraftLength
from optimist.actors.scheduler.epoch import Epoch
from optimist.actors.scheduler.growth import Growth
from optimist.actors.scheduler.queue import Queue
from optimist.actors.scheduler.sheet import Sheet
from optimist.actors.scheduler.slots import Ints, Rows
from optimist.messages.plans import Plan


class Planner:
    """Plans steps of one epoch: decode rows first, then prefill chunks, then admissions.

    Whatever the pool or the slots cannot hold now waits; but while any request could run, a plan that
    has nothing in flight before it is never empty.

    A request that was in a step that died gets its next step alone, with nothing in flight beside it: so one
    that takes the worker along each time is struck alone the second time.

    length: says how many drafts a row gets, None where nobody drafts. Where steps overlap, drafts that are
    not there yet are planned, and the plan is optimistic; else each plan says how many the next one would
    take, and that one has as many of those as wait at the worker then.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        epoch: Epoch,
        queue: Queue,
        departures: Departures,
        counters: Counters,
        incarnation: int,
        length: DraftLength | None,
    ) -> None:
        self._epoch = epoch
        self._length = length
        self._optimistic = length is not None and config.depth > 1
        self._queue = queue
        self._incarnation = incarnation
        takes = epoch.capacity.max_batch_tokens
        self._budget = min(config.max_batch_tokens or takes, takes)
        self._prompts = min(epoch.capacity.max_prompt_tokens or self._budget, self._budget)
        self._max_chunk = config.max_chunk
        self._turn = self._draft_turn = 0
        self._growth = Growth(epoch, departures)
        self._admission = Admission(epoch, queue, departures, self._growth, counters)

    def plan(self) -> Plan | None:
        """The next step, now in flight; None when nothing can run."""
        sheet, suspect = Sheet(), self._suspect()
        if self._epoch.flights and (suspect or self._epoch.trial):
            return None
        self._epoch.trial = None
        if not suspect or self._open(sheet, self._prompts, idle=False) is None:
            self._decode(sheet)
            left = self._budget - sheet.decode.size - int(sheet.drafts.sum())
            left = self._prefill(sheet, min(left, self._prompts))
            self._admit(sheet, left)
        if sheet.empty:
            return None
        return self._compose(sheet)

    def _compose(self, sheet: Sheet) -> Plan:
        if self._length is not None and not self._optimistic:
            self._wish(self._length, sheet.sampling)
        flight = sheet.compose(self._epoch, self._incarnation, optimistic=self._optimistic)
        slots = self._epoch.slots
        slots.steps[flight.slots] += 1
        slots.last_step[flight.slots] = flight.step
        slots.min_in_flight[flight.sampling] += 1
        slots.max_in_flight[flight.sampling] += 1 + flight.drafts
        self._epoch.flights.append(flight)
        return flight.plan

    def _decode(self, sheet: Sheet) -> None:
        slots = self._epoch.slots
        rows = self._decode_rows()
        rows, drafts = self._growth.grow(rows, self._drafts(rows), sheet)
        slots.computed[rows] += 1 + drafts
        sheet.decode, sheet.drafts, sheet.decode_lens = rows, drafts, slots.computed[rows]
        # Where nothing waits at the worker, what was wished for was asked for in vain.
        sheet.asked = (
            drafts if self._optimistic else np.where(slots.held[rows], drafts, slots.wanted[rows])
        )
        slots.held[rows] = 0

    def _drafts(self, rows: Rows) -> Ints:
        """Drafts of these rows, so many as pay and as the row's limits and the step's budget allow, [D]."""
        slots = self._epoch.slots
        if self._length is None or (self._optimistic and self._length.skips()):
            return np.zeros(len(rows), np.int32)
        settled = slots.settled[rows]
        room = slots.ceiling[rows] - settled - slots.max_in_flight[rows]
        room = np.minimum(room, slots.token_limit[rows] - settled - slots.min_in_flight[rows]) - 1
        if self._optimistic:
            return self._affordable(rows, self._length.lengths(rows, room))
        return self._affordable(
            rows, np.minimum(np.minimum(room, slots.held[rows]), slots.wanted[rows])
        )

    def _wish(self, length: DraftLength, rows: Rows) -> None:
        """How many drafts pay behind this step, in which each of these rows gets a token or more."""
        slots = self._epoch.slots
        room = np.minimum(slots.ceiling[rows], slots.token_limit[rows]) - slots.settled[rows] - 2
        slots.wanted[rows] = length.lengths(rows, np.maximum(room, 0))

    def _affordable(self, rows: Rows, drafts: Ints) -> Ints:
        """The drafts that the budget allows: half of what decode rows leave, if others want some.

        All rows get equally many as far as that goes; who gets those that are left over changes.
        """
        left = self._budget - len(drafts)
        if int(drafts.sum()) > left // 2 and (self._queue.has_ready() or self._unfinished().any()):
            left //= 2
        if int(drafts.sum()) > left:
            drafts = np.minimum(drafts, max(left // len(drafts), 1))
            order = np.argsort(rows < self._draft_turn, kind="stable")
            wanted = drafts[order]
            given = np.clip(left - wanted.cumsum() + wanted, 0, wanted)
            drafts[order] = given
            if (without := order[given < wanted]).size:
                self._draft_turn = int(rows[without[0]])
        return drafts

    def _unfinished(self) -> NDArray[np.bool_]:
        """Slots whose prompt has not been planned to its end, [max_slots]."""
        return self._epoch.slots.active & ~self._epoch.slots.decoding

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
        begun = np.flatnonzero(self._unfinished()).tolist()
        for slot in sorted(begun, key=lambda slot: slots.request(slot).rank):
            if budget == 0:
                break
            budget -= self._chunk(slot, sheet, budget)
        return budget

    def _suspect(self) -> bool:
        """Whether the next one to be admitted must be alone in its step."""
        head = self._queue.head()
        return head is not None and head.suspect

    def _admit(self, sheet: Sheet, budget: int) -> None:
        while budget and not self._epoch.trial and self._queue.has_ready():
            idle = sheet.empty and not self._epoch.flights
            if not idle and self._suspect():
                break
            taken = self._open(sheet, budget, idle=idle)
            if taken is None:
                break
            budget -= taken

    def _open(self, sheet: Sheet, budget: int, *, idle: bool) -> int | None:
        """Admit the head of the queue and plan its first chunk; returns its size, None if it does not fit."""
        suspect = self._suspect()
        slot = self._admission.admit(sheet, idle=idle)
        if slot is None:
            return None
        request = self._epoch.slots.request(slot)
        request.tried = True
        self._epoch.trial = request if suspect else None
        if self._length is not None:
            self._length.open(slot)
        return self._chunk(slot, sheet, budget)

    def _chunk(self, slot: int, sheet: Sheet, budget: int) -> int:
        """Plan the next chunk of a prompt; returns its size.

        Behind the last token another is chosen; where none is wanted, that one need not be computed.
        """
        slots = self._epoch.slots
        start, known = int(slots.computed[slot]), int(slots.settled[slot])
        last = min(known, int(slots.token_limit[slot]) - 1)
        end = start + min(last - start, self._max_chunk, budget)
        sheet.chunk(slot, start, end, end == known)
        slots.computed[slot] = end
        slots.decoding[slot] = end == last
        return end - start
