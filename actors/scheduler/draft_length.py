"""How many drafts each row gets: so many as give most tokens for the time, down to none.

A draft costs a query token and yields a token with the probability that it and those before it in its
row are accepted; both only as often as the proposer has one, while the wait for it is the same. Of all
rows' drafts the likeliest come first, so one count of drafts decides on all of them: the count with the
most expected tokens for the expected time of the step. Where drafts are made in the step, one pass for all
rows after the other, the number of passes decides, and all rows get as many.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.actors.config import DraftTokens, most_drafts
from optimist.actors.scheduler.acceptance import ALIKE, TRUST, Acceptance, Totals
from optimist.actors.scheduler.shares import Shares
from optimist.actors.scheduler.slots import Ints, Rows
from optimist.actors.scheduler.step_cost import DraftCost, Numbers

GAIN, GAIN_OF_WAIT = 1.02, 1.05
"""drafts must promise more than this times the tokens that none would give in the same time; the second where
they are waited for: a step that waits is prepared behind the one before it, too, not beside it"""

PROBE = 1
"""drafts of a row that has had none for a while, to see whether they have begun to pay"""

FIRST_PAUSE, LONGEST_PAUSE = 4, 32
"""steps without drafts before a probe; the pause doubles while probes fail"""

PROBING = 0.01
"""share of the time that all probes together may take, whatever the pause"""

TOGETHER = 4
"""steps of which one is for probes: a step waits for drafts once, for many rows or for one"""

BARE, UNKNOWN = 64, 8
"""steps of which one is without drafts where these are made in passes, to see what it takes; and of which one
is while none of that many rows has been"""

OFFERED = 4.0
"""times that a new request is asked for drafts until it counts more than others how often it had some"""

RARE = 0.25
"""share of times that a proposer had drafts below which a row is asked less often"""

SELDOM = 16
"""steps of which at least one is for a row whose proposer has had nothing to say"""


class DraftLength:
    """Columns of shape [max_slots]. draft_tokens: see DraftTokens; a number is never adapted.

    passes: whether drafts are made in the step that verifies them, one pass of all rows after the other.
    Call `open` when a request moves into a slot, `settle` and `ran` for each step that settles, and
    `lengths` while planning, but in steps of which `skips` says that there are none. `rehearsed`, where the
    proposer can tell what drafts would have been worth, finds out what else a probe does.
    """

    def __init__(self, count: int, draft_tokens: DraftTokens, *, passes: bool = False) -> None:
        self.adaptive = draft_tokens == "auto"
        self.most = most_drafts(draft_tokens)
        self._acceptance = Acceptance(count, ALIKE if passes else TRUST)
        self._offers = Shares(count, OFFERED, 1.0)
        self._passes = passes
        self._cost = DraftCost(passes=passes)
        self._tried_at = np.zeros(count, np.int64)
        self._pause = np.full(count, FIRST_PAUSE, np.int32)
        self._every = np.ones(count, np.int32)
        self._step, self._bare = 0, -BARE
        self._none_before = 0
        """the step before which no row gets any, as far as is known now"""
        self._positions = np.arange(1, self.most + 1)

    def open(self, slot: int) -> None:
        """Another request is in the slot: nothing is known of it."""
        self._acceptance.open(slot)
        self._offers.open(slot)
        self._tried_at[slot] = self._step
        self._pause[slot], self._every[slot] = FIRST_PAUSE, 1
        self._none_before = 0

    def settle(self, rows: Rows, drafted: Ints, accepted: Ints, room: Ints | None = None) -> None:
        """A step settled. rows: decode rows' slots [S]; drafted: drafts verified there, [S]; accepted:
        of these, [S]. room: drafts that were planned there, [S]; None says nothing of it.

        A row whose proposer had none says nothing of acceptance; but less is expected of it, and it is
        asked half as often, down to once in SELDOM steps, since asking takes time too.
        """
        some = drafted > 0
        if not some.any() and (room is None or not room.any()):
            return
        self._none_before = 0
        self._acceptance.settle(rows, drafted, accepted)
        if room is not None:
            asked = room > 0
            self._offers.add(
                rows[asked], np.ones(int(asked.sum()), np.int32), some[asked].astype(np.int32)
            )
            none = rows[asked & ~some]
            none = none[self._offers.of(none) < RARE]
            self._every[none] = np.minimum(2 * self._every[none], SELDOM)
        tried, right = rows[some], rows[accepted > 0]
        self._every[tried] = 1
        self._tried_at[tried] = self._step
        self._pause[tried] = np.minimum(2 * self._pause[tried], LONGEST_PAUSE)
        self._pause[right] = FIRST_PAUSE

    def rehearsed(
        self, rows: Rows, asked: Ints, offered: Ints, drafted: Ints, accepted: Ints
    ) -> None:
        """Rows without drafts, [S], would have been asked so often, [S], would have had some so often, [S],
        drafts up to the first wrong one, [S], and right ones, [S]. No probe is needed then for a while.
        """
        self._acceptance.rehearsed(rows, offered, drafted, accepted)
        self._offers.add(rows, asked, offered, asked)
        self._tried_at[rows], self._pause[rows] = self._step, LONGEST_PAUSE
        self._every[rows[self._offers.of(rows) >= RARE]] = 1
        self._none_before = 0

    def ran(self, tokens: int, step_us: int, drafted: Ints, waited_us: int | None = None) -> None:
        """A step settled that had so many query tokens, drafts included, and took so long.

        drafted: drafts of its rows, [S]. waited_us: how long the device had then stood still, but for
        want of a batch; None where the step had no room for drafts. Without, it goes on at once.
        """
        self._cost.ran(tokens, step_us, int(drafted.sum()), int(drafted.max(initial=0)))
        if waited_us is not None:
            self._cost.waited(waited_us)

    def skips(self) -> bool:
        """Whether the next step has no drafts, whatever its rows: it needs no `lengths` then."""
        if self._step + 1 >= self._none_before:
            return False
        self._step += 1
        return True

    def lengths(self, rows: Rows, room: Ints) -> Ints:
        """Drafts for each of the decode rows of the next step, [D].

        rows: their slots, [D]. room: drafts that context, tokens left and pool allow at most, >= 0, [D].
        """
        room = np.minimum(room, self.most)
        if not self.adaptive or not rows.size:
            return room
        self._step += 1
        asked = self._step % self._every[rows] == 0
        if not asked.any():
            return np.zeros(len(rows), np.int32)
        chances = self._acceptance.rates(rows)[:, None] ** self._positions
        chances[(self._positions > room[:, None]) | ~asked[:, None]] = 0.0
        offers = self._offers.of(rows)
        paying = chances > 0 if self._passes else chances >= self._least(chances, offers)
        if self._passes:
            paying[:, self._depth(chances) :] = False
        lengths: Ints = paying.sum(1, dtype=np.int32)
        if self._passes and self._is_bare(lengths):
            return np.zeros(len(rows), np.int32)
        idle = asked & (lengths == 0)
        due = self._tried_at[rows] + np.maximum(self._pause[rows], self._dear(len(rows)))
        if idle.all() and not self._passes:
            self._none_before = min(int(due.min()) + 1, self._step + SELDOM)
        if self._step % TOGETHER or not (idle & (self._step > due)).any():
            return lengths
        # A probe of one row takes almost the time of one of all.
        return np.where(idle, np.minimum(PROBE, room), lengths)

    def totals(self) -> Totals:
        """What became of all drafts since the start."""
        return self._acceptance.totals()

    def _is_bare(self, lengths: Ints) -> bool:
        """Whether this step has no drafts, or should have none."""
        pause = BARE if self._cost.knows(len(lengths)) else UNKNOWN
        if lengths.any() and self._step - self._bare < pause:
            return False
        self._bare = self._step
        return bool(lengths.any())

    def _dear(self, rows: int) -> float:
        """Steps between two probes of so many rows, so that they stay within their share."""
        without, one = self._cost.of(rows, np.array([0, PROBE * rows]), np.array([0, PROBE]))
        return (float(one) / float(without) - 1) / PROBING

    def _least(self, chances: NDArray[np.float64], offers: NDArray[np.float64]) -> float:
        """The chance from which on drafts pay in this step; above 1 when none do.

        chances: of drafts, where there are some, [D, K]. offers: how often there are some, [D].
        """
        some = chances > 0
        order = chances[some].argsort()[::-1]
        best = chances[some][order]
        there = np.broadcast_to(offers[:, None], chances.shape)[some][order]
        drafts = self._most_for_the_time(chances, best * there, np.append(0.0, there.cumsum()))
        return float(best[drafts - 1]) if drafts else 2.0

    def _depth(self, chances: NDArray[np.float64]) -> int:
        """How many drafts of each row pay in this step, 0 when none do. chances: [D, K]."""
        drafts = np.concatenate(([0], (chances > 0).sum(0).cumsum()))
        return self._most_for_the_time(chances, chances.sum(0), drafts)

    def _most_for_the_time(
        self, chances: NDArray[np.float64], adds: NDArray[np.float64], drafts: Numbers
    ) -> int:
        """How many of N choices pay.

        adds: tokens that each promises, [N]. drafts: as many as are expected of none to all, [N+1].
        """
        rows = len(chances)
        gained = rows + np.concatenate(([0.0], adds.cumsum()))
        rate = gained / self._cost.of(rows, drafts, np.arange(len(drafts)))
        best = int(rate.argmax())
        least = GAIN if self._passes else GAIN_OF_WAIT
        return best if rate[best] > least * rate[0] else 0
