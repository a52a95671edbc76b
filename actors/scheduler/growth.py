"""Blocks for decode rows, taken from others when there are none left."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.actors.scheduler.departures import Departures
from optimist.actors.scheduler.epoch import Epoch
from optimist.actors.scheduler.sheet import Sheet
from optimist.actors.scheduler.slots import Ints, Rows

PATIENCE = 8
"""steps without the row after which a slot that waits for credit counts as stalled"""


class Growth:
    """Gives each decode row room for its next token, best rank first, and then for drafts.

    When the pool is empty the worst of all running requests is preempted: a stalled one before others,
    then by rank. A row whose block comes back only when a step in flight settles sits this step out, and
    so does one whose drafts in flight may yet turn out not to need it. The best running request is never
    preempted for another, so that one always gets on.

    Nobody is preempted for drafts. They take a block only while one for each running request remains.
    """

    def __init__(self, epoch: Epoch, departures: Departures) -> None:
        self._epoch = epoch
        self._departures = departures

    def grow(self, rows: Rows, drafts: Ints, sheet: Sheet) -> tuple[Rows, Ints]:
        """Those of these decode rows that have room for one more token, and their drafts that have."""
        slots = self._epoch.slots
        lacking = slots.computed[rows] + 1 + drafts > slots.room[rows]
        if not lacking.any():
            return rows, drafts
        needy = rows[lacking & (slots.computed[rows] >= slots.room[rows])]
        if needy.size:
            without = self._serve(sorted(needy.tolist(), key=self._rank), sheet)
            stay = slots.active[rows] & ~np.isin(rows, without)
            rows, drafts = rows[stay], drafts[stay]
        if drafts.any():
            self._extend(rows, drafts, sheet)
            drafts = np.minimum(drafts, slots.room[rows] - slots.computed[rows] - 1)
        return rows, drafts

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
        slots, pool = self._epoch.slots, self._epoch.pool
        promised = self._departures.promised() if not pool.can_take(len(needy)) else 0
        without = []
        for slot in needy:
            sure = slots.min_in_flight[slot] == slots.max_in_flight[slot]
            while slots.active[slot] and not pool.can_take(1) and not promised and sure:
                promised += self._preempt_worst()
            if not slots.active[slot]:
                continue
            if pool.can_take(1):
                self._give(slot, 1, sheet)
                continue
            promised -= bool(promised)
            without.append(slot)
        return without

    def _extend(self, rows: Rows, drafts: Ints, sheet: Sheet) -> None:
        """Give blocks for drafts, best rank first, while there are enough."""
        slots, pool, size = self._epoch.slots, self._epoch.pool, self._epoch.block_size
        missing = slots.computed[rows] + 1 + drafts - slots.room[rows]
        some = np.flatnonzero(missing > 0)
        wants = dict(zip(rows[some].tolist(), (-(-missing[some] // size)).tolist(), strict=True))
        spare = pool.available - int(np.count_nonzero(slots.active))
        for slot in sorted(wants, key=self._rank) if sum(wants.values()) > spare else wants:
            blocks = min(wants[slot], spare)
            if blocks < 1:
                break
            self._give(slot, blocks, sheet)
            spare -= blocks

    def _preempt_worst(self) -> int:
        """Preempt a request; returns the blocks it will give back when its steps have settled."""
        slots = self._epoch.slots
        stalled = self.stalled()
        worst = max(slots.running(), key=lambda slot: (bool(stalled[slot]), self._rank(slot)))
        blocks = slots.blocks[worst]
        self._departures.preempt(worst)
        return self._epoch.pool.exclusive(blocks) if slots.leaving[worst] else 0

    def _give(self, slot: int, count: int, sheet: Sheet) -> None:
        slots, pool = self._epoch.slots, self._epoch.pool
        held, blocks = slots.blocks[slot], [pool.take() for _ in range(count)]
        sheet.give(slot, len(held), blocks)
        held.extend(blocks)
        slots.room[slot] += count * self._epoch.block_size

    def _rank(self, slot: int) -> tuple[int, int]:
        return self._epoch.slots.request(slot).rank
