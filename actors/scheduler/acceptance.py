"""How many drafts were right: of each running request, and of all since the start."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.actors.scheduler.shares import Shares
from optimist.actors.scheduler.slots import Ints, Rows

TRUST = 2.0
"""drafts of its own that a new request needs until it counts more than all others before it"""

ALIKE = 15.0
"""the same where a model drafts: it is about as good for one request as for another, and a few bad steps
of a request say little"""

FIRST_RATE = 0.6
"""what is assumed before any draft was verified"""


class Totals(NamedTuple):
    """rows: verified with at least one draft. drafted, accepted: drafts.

    per_position: how many drafts were accepted as the first, second and so on of their row.
    """

    rows: int = 0
    drafted: int = 0
    accepted: int = 0
    per_position: tuple[int, ...] = ()

    @property
    def acceptance_length(self) -> float:
        """Tokens a row with drafts yields on average, the bonus token included; 1 before the first."""
        return 1 + self.accepted / self.rows if self.rows else 1.0


class Acceptance:
    """Columns of shape [max_slots], and totals. trust: see TRUST.

    The rate of a request is the probability that a draft is accepted when those before it were.
    """

    def __init__(self, count: int, trust: float = TRUST) -> None:
        self._shares = Shares(count, trust, FIRST_RATE)
        self._rows = self._drafted = 0
        self._positions = np.zeros(0, np.int64)

    def open(self, slot: int) -> None:
        """Another request is in the slot: nothing is known of it."""
        self._shares.open(slot)

    def settle(self, rows: Rows, drafted: Ints, accepted: Ints) -> None:
        """A step settled. rows: slots [S]; drafted: drafts verified there, [S]; accepted: of these, [S].

        Rows without drafts say nothing.
        """
        some = drafted > 0
        if not some.any():
            return
        rows, drafted, accepted = rows[some], drafted[some], accepted[some]
        self._shares.add(rows, np.minimum(accepted + 1, drafted), accepted)
        self._count(drafted, accepted)

    def rehearsed(self, rows: Rows, times: Ints, drafted: Ints, accepted: Ints) -> None:
        """What would have been right, had there been drafts so many times. All [S]; no total counts it."""
        self._shares.add(rows, drafted, accepted, times)

    def rates(self, rows: Rows) -> NDArray[np.float64]:
        """Of each of these slots, [D], in (0, 1)."""
        return self._shares.of(rows)

    def totals(self) -> Totals:
        """Since the start."""
        accepted = int(self._positions.sum())
        return Totals(self._rows, self._drafted, accepted, tuple(self._positions.tolist()))

    def _count(self, drafted: Ints, accepted: Ints) -> None:
        self._rows += len(drafted)
        self._drafted += int(drafted.sum())
        longest = int(drafted.max())
        if longest > len(self._positions):
            self._positions = np.pad(self._positions, (0, longest - len(self._positions)))
        right = np.bincount(accepted, minlength=longest + 1)
        self._positions[:longest] += right[::-1].cumsum()[::-1][1:]
