"""Blocks for decode rows, taken from others when there are none left."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.actors.scheduler.departures import Departures
from optimist.actors.scheduler.epoch import Epoch
from optimist.actors.scheduler.sheet import Sheet
from optimist.actors.scheduler.slots import Rows

PATIENCE = 8
"""steps without the row after which a slot that waits for credit counts as stalled"""


class Growth:
    """Gives each decode row room for its next token, best rank first.

    When the pool is empty the worst of all running requests is preempted: a stalled one before others,
    then by rank. A row whose block comes back only when a step in flight settles sits this step out.
    The best running request is never preempted for another, so that one always gets on.
    """

    def __init__(self, epoch: Epoch, departures: Departures) -> None:
        self._epoch = epoch
        self._departures = departures

    def grow(self, rows: Rows, sheet: Sheet) -> Rows:
        """Those of these decode rows that have room for one more token."""
        slots = self._epoch.slots
        needy = rows[slots.computed[rows] >= slots.room[rows]]
        if not needy.size:
            return rows
        without = self._serve(sorted(needy.tolist(), key=self._rank), sheet)
        return rows[slots.active[rows] & ~np.isin(rows, without)]

    def paused(self) -> NDArray[np.bool_]:
        """Slots that could run but for their credit, [max_slots]."""
        slots = self._epoch.slots
        planned = slots.settled + slots.max_in_flight
        return slots.decoding & (planned >= slots.ceiling) & (planned < slots.token_limit)

    def stalled(self) -> NDArray[np.bool_]:
        """Slots that have been paused for a while, [max_slots]."""
        return self.paused() & (self._epoch.next_step - self._epoch.slots.last_step > PATIENCE)

    def _serve(self, needy: list[int], sheet: Sheet) -> list[int]:
        """Give a block to each slot in turn; returns those that must wait for one."""
        promised = self._departures.promised() if not self._epoch.pool.can_take(len(needy)) else 0
        without = []
        for slot in needy:
            while (
                self._epoch.slots.active[slot] and not self._epoch.pool.can_take(1) and not promised
            ):
                promised += self._preempt_worst()
            if not self._epoch.slots.active[slot]:
                continue
            if self._epoch.pool.can_take(1):
                self._give(slot, sheet)
            else:
                promised -= 1
                without.append(slot)
        return without

    def _preempt_worst(self) -> int:
        """Preempt a request; returns the blocks it will give back when its steps have settled."""
        slots = self._epoch.slots
        stalled = self.stalled()
        worst = max(slots.running(), key=lambda slot: (bool(stalled[slot]), self._rank(slot)))
        blocks = slots.blocks[worst]
        self._departures.preempt(worst)
        return self._epoch.pool.exclusive(blocks) if slots.leaving[worst] else 0

    def _give(self, slot: int, sheet: Sheet) -> None:
        block, held = self._epoch.pool.take(), self._epoch.slots.blocks[slot]
        sheet.give(slot, len(held), [block])
        held.append(block)
        self._epoch.slots.room[slot] += self._epoch.block_size

    def _rank(self, slot: int) -> tuple[int, int]:
        return self._epoch.slots.request(slot).rank
