"""What a step of so many query tokens takes, learnt from the steps that ran."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Costs = NDArray[np.float64]

NEWEST = 0.1
"""weight of the newest step among those of its size"""

ALONG = 0.25
"""how much of a change other sizes follow: contexts grow, and machines get busy, for all of them"""

WILD = 4.0
"""a step is not believed to take more than this times what was known, nor less than its inverse"""

_WILDEST = math.log(WILD)

DOUBLE = 16.0
"""tokens that double the cost of a step, before there is a measurement"""


class StepCost:
    """Sizes are gathered in classes, four to each doubling; between and beyond them it is interpolated."""

    def __init__(self) -> None:
        self._sizes: Costs = np.zeros(0)
        self._logs: Costs = np.zeros(0)
        self._seen: Costs = np.zeros(0)
        self._places: dict[int, int] = {}

    def ran(self, tokens: int, step_us: int) -> None:
        """A step of so many query tokens took so many microseconds. One that says 0 was not timed."""
        if tokens < 1 or step_us < 1:
            return
        log = math.log(step_us)
        if (at := self._places.get(tokens)) is None:
            at = self._place(tokens, log)
        change = min(max(log - float(self._logs[at]), -_WILDEST), _WILDEST)
        self._seen[at] += 1
        weight = max(1 / float(self._seen[at]), NEWEST)
        self._logs += ALONG * NEWEST * change
        self._logs[at] += (weight - ALONG * NEWEST) * change

    def of(self, tokens: NDArray[np.integer]) -> Costs:
        """The cost of steps of these sizes, each >= 1, in a unit of its own, [N]; more tokens, more cost."""
        shape = 1 + tokens / DOUBLE
        if not self._sizes.size:
            return shape
        # Relative to the assumed shape, so that it goes on beyond the sizes that were seen.
        logs = self._logs - np.log1p(self._sizes / DOUBLE)
        cost: Costs = shape * np.exp(np.interp(np.log(tokens), np.log(self._sizes), logs))
        return np.maximum.accumulate(cost)

    def _place(self, tokens: int, log: float) -> int:
        """Where the class of such steps is; a new one begins with this one."""
        size = _class_of(tokens)
        at = int(np.searchsorted(self._sizes, size))
        if at == len(self._sizes) or self._sizes[at] != size:
            self._sizes = np.insert(self._sizes, at, size)
            self._logs, self._seen = np.insert(self._logs, at, log), np.insert(self._seen, at, 0)
            self._places.clear()
        self._places[tokens] = at
        return at


def _class_of(tokens: int) -> float:
    return float(np.round(2 ** (np.round(4 * np.log2(tokens)) / 4), 2))
