"""How often something was so: for each running request, judged by its last few times."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.actors.scheduler.slots import Rows

KEEP = 0.9
"""weight of the past of a request each time"""

KEEP_ALL = 0.99
"""the same of all of them together"""


class Shares:
    """Columns of shape [max_slots].

    trust: how often a new request must have been tried until it counts more than all others before it.
    first: the share that is assumed before anything was tried.
    """

    def __init__(self, count: int, trust: float, first: float) -> None:
        self._trust = trust
        self._tried = np.zeros(count)
        self._right = np.zeros(count)
        self._all_tried, self._all_right = 1.0, first

    def open(self, slot: int) -> None:
        """Another request is in the slot: nothing is known of it."""
        self._tried[slot] = self._right[slot] = 0.0

    def add(
        self,
        rows: Rows,
        tried: NDArray[np.integer],
        right: NDArray[np.integer],
        times: NDArray[np.integer] | None = None,
    ) -> None:
        """In each of these slots, [S], it was tried so often, [S], and so often right, [S].

        times: at so many occasions, [S]; None: once, in all of them together.
        """
        keep = KEEP if times is None else KEEP**times
        self._tried[rows] = keep * self._tried[rows] + tried
        self._right[rows] = keep * self._right[rows] + right
        # What a step brings of all its rows is one occasion.
        keep_all = KEEP_ALL ** (1 if times is None else int(times.max(initial=0)))
        self._all_tried = keep_all * self._all_tried + float(tried.sum())
        self._all_right = keep_all * self._all_right + float(right.sum())

    def of(self, rows: Rows) -> NDArray[np.float64]:
        """The share of each of these slots, [D], in (0, 1)."""
        usual = self._all_right / self._all_tried
        shares = (self._right[rows] + self._trust * usual) / (self._tried[rows] + self._trust)
        return np.clip(shares, 1e-3, 1 - 1e-3)
