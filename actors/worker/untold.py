"""Tokens that the proposer has not been told of yet."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.messages.base import Column, ints, size

Ints = NDArray[np.int32]

FEW, MANY = 4, 16
"""steps after which tokens are told although no drafts are wanted: of requests that end, fewer are lost, and
whether drafts would pay is found out. FEW behind one that opens, then twice as many each time"""


class Untold:
    """Columns by slot. known: tokens of its request that are known, told or not, [max_slots]."""

    def __init__(self, slots: int) -> None:
        self.known: Ints = np.zeros(slots, np.int32)
        self._news: list[tuple[Column, Column, Column]] = []
        self._steps, self._enough = 0, FEW
        self._count: Ints = np.zeros(slots, np.int32)
        self._ids: Ints = np.zeros((slots, 2 * MANY), np.int32)

    @property
    def many(self) -> bool:
        """Whether some tokens have waited for so many steps that they should not wait for a wish."""
        return self._steps >= self._enough

    def add(self, slots: Column, counts: Column, ids: Column) -> None:
        """Slots went on, [S]: so many tokens each, [S], which are ids, [sum]. Costs nothing before `take`."""
        self._news.append((slots, counts, ids))
        self._steps += 1

    def open(self, slot: int, known: int) -> None:
        """Another request is in the slot, and so many of its tokens are told by others."""
        self._sort_in()
        self.known[slot], self._count[slot] = known, 0
        self._enough = FEW

    def close(self, slots: Ints) -> None:
        """Nobody wants to know what waits there."""
        self._sort_in()
        self._count[slots] = 0

    def waiting(self) -> NDArray[np.bool_]:
        """Slots of which tokens wait, [max_slots]."""
        self._sort_in()
        return self._count > 0

    def take(self, slots: NDArray[np.integer]) -> tuple[Ints, Ints]:
        """How many tokens wait in each of these, [S], and which, [sum]. They wait no longer."""
        self._sort_in()
        counts = self._count[slots]
        ids = self._ids[slots][np.arange(self._ids.shape[1]) < counts[:, None]]
        self._count[slots] = 0
        if not self._count.any():
            if self.many:
                self._enough = min(2 * self._enough, MANY)
            self._steps = 0
        return counts, ids

    def forget(self) -> None:
        """What waits is told to nobody."""
        self._sort_in()
        self._count[:] = self._steps = 0

    def _sort_in(self) -> None:
        for slots, counts, ids in self._news:
            self._sort(ints(slots), ints(counts), ids)
        self._news.clear()

    def _sort(self, slots: Ints, counts: Ints, column: Column) -> None:
        begin, ids = self._count[slots], ints(column)
        self.known[slots] += counts
        self._count[slots] += counts
        if (wide := int(self._count.max(initial=0))) > self._ids.shape[1]:
            self._ids = np.pad(self._ids, ((0, 0), (0, wide)))
        if size(column) == len(slots) and (counts == 1).all():
            self._ids[slots, begin] = ids
        else:
            within = np.arange(len(ids)) - np.repeat(counts.cumsum() - counts - begin, counts)
            self._ids[np.repeat(slots, counts), within] = ids
