"""How many drafts each row gets: so many as give most tokens for the time, down to none.

A draft costs a query token and yields a token with the probability that it and those before it in its
row are accepted. Of all rows' drafts the likeliest come first, so one count of drafts decides on all of
them: the count with the most expected tokens for the expected time of the step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.actors.config import DraftTokens, most_drafts
from optimist.actors.scheduler.acceptance import Acceptance, Totals
from optimist.actors.scheduler.slots import Ints, Rows
from optimist.actors.scheduler.step_cost import StepCost

GAIN = 1.02
"""drafts must promise more than this times the tokens that none would give in the same time"""

PROBE = 1
"""drafts of a row that has had none for a while, to see whether they have begun to pay"""

FIRST_PAUSE, LONGEST_PAUSE = 4, 32
"""steps without drafts before a probe; the pause doubles while probes fail"""

PROBING = 0.01
"""share of the time that all probes together may take, whatever the pause"""

TOGETHER = 4
"""steps of which one is for probes: a step waits for drafts once, for many rows or for one"""

SELDOM = 16
"""steps of which at least one is for a row whose proposer has had nothing to say"""


class DraftLength:
    """Columns of shape [max_slots]. draft_tokens: see DraftTokens; a number is never adapted.

    Call `open` when a request moves into a slot, `settle` and `ran` for each step that settles, and
    `lengths` while planning.
    """

    def __init__(self, count: int, draft_tokens: DraftTokens) -> None:
        self.adaptive = draft_tokens == "auto"
        self.most = most_drafts(draft_tokens)
        self._acceptance = Acceptance(count)
        self._cost = StepCost()
        self._idle = np.zeros(count, np.int32)
        self._pause = np.full(count, FIRST_PAUSE, np.int32)
        self._every = np.ones(count, np.int32)
        self._step = 0
        self._positions = np.arange(1, self.most + 1)

    def open(self, slot: int) -> None:
        """Another request is in the slot: nothing is known of it."""
        self._acceptance.open(slot)
        self._idle[slot], self._pause[slot], self._every[slot] = 0, FIRST_PAUSE, 1

    def settle(self, rows: Rows, drafted: Ints, accepted: Ints, room: Ints | None = None) -> None:
        """A step settled. rows: decode rows' slots [S]; drafted: drafts verified there, [S]; accepted:
        of these, [S]. room: drafts that were planned there, [S]; None says nothing of it.

        A row whose proposer had none says nothing of acceptance; but it is asked half as often, down to
        once in SELDOM steps, since asking takes time too.
        """
        some = drafted > 0
        if not some.any() and (room is None or not room.any()):
            return
        self._acceptance.settle(rows, drafted, accepted)
        if room is not None:
            none = rows[(room > 0) & (drafted == 0)]
            self._every[none] = np.minimum(2 * self._every[none], SELDOM)
        tried, right = rows[some], rows[accepted > 0]
        self._every[tried] = 1
        self._idle[tried] = 0
        self._pause[tried] = np.minimum(2 * self._pause[tried], LONGEST_PAUSE)
        self._pause[right] = FIRST_PAUSE

    def ran(self, tokens: int, step_us: int) -> None:
        """A step settled that had so many query tokens, drafts included, and took so long."""
        self._cost.ran(tokens, step_us)

    def lengths(self, rows: Rows, room: Ints) -> Ints:
        """Drafts for each of the decode rows of the next step, [D].

        rows: their slots, [D]. room: drafts that context, tokens left and pool allow at most, >= 0, [D].
        """
        room = np.minimum(room, self.most)
        if not self.adaptive or not rows.size:
            return room
        self._step += 1
        self._idle[rows] += 1
        asked = self._step % self._every[rows] == 0
        if not asked.any():
            return np.zeros(len(rows), np.int32)
        chances = self._acceptance.rates(rows)[:, None] ** self._positions
        chances[self._positions > room[:, None]] = 0.0
        lengths: Ints = (chances >= self._least(chances)).sum(1, dtype=np.int32)
        pauses = np.maximum(self._pause[rows], self._dear(len(rows)))
        lengths[~asked] = 0
        if self._step % TOGETHER:
            return lengths
        probing = asked & (lengths == 0) & (self._idle[rows] > pauses)
        return np.where(probing, np.minimum(PROBE, room), lengths)

    def totals(self) -> Totals:
        """What became of all drafts since the start."""
        return self._acceptance.totals()

    def _dear(self, rows: int) -> float:
        """Steps between two probes of each of so many rows, so that they stay within their share."""
        without, one = self._cost.of(np.array([rows, rows + PROBE]))
        return rows * (float(one) / float(without) - 1) / PROBING

    def _least(self, chances: NDArray[np.float64]) -> float:
        """The chance from which on drafts pay in this step; above 1 when none do. chances: [D, K]."""
        best = np.sort(chances[chances > 0])[::-1]
        if not best.size:
            return 2.0
        rows = len(chances)
        gained = rows + np.concatenate(([0.0], best.cumsum()))
        rate = gained / self._cost.of(rows + np.arange(len(gained)))
        drafts = int(rate.argmax())
        return float(best[drafts - 1]) if rate[drafts] > GAIN * rate[0] else 2.0
