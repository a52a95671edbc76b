"""How long a device computes, and what it waits for in between."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from optimist.actors.worker.core import Times


class DeviceClock:
    """Follows batches from their arrival to the end of their step; one step ends after the other.

    All in seconds of the performance counter. Two threads may use it: one begins steps, one ends them.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._came: deque[float] = deque()
        self._begun: deque[_Begun] = deque()
        self._free = clock()
        self._drafts_s = self._held_s = 0.0

    @property
    def busy_since(self) -> float | None:
        """When the device began with the step that it computes now, None when it has none."""
        try:
            return max(self._begun[0].at, self._free)
        except IndexError:
            return None

    def came(self) -> None:
        """A batch came whose turn will come."""
        self._came.append(self._clock())

    def waited_for_drafts(self, since: float) -> None:
        """The next step has waited for its drafts alone, from then until now."""
        waited = self._clock() - since
        self._drafts_s += waited
        if not self._came:
            self._held_s += waited

    def begin(self) -> None:
        """The batch that came first of those that wait goes to the device."""
        came = self._came.popleft() - self._held_s
        self._begun.append(_Begun(self._clock(), came, self._drafts_s))
        self._drafts_s = self._held_s = 0.0

    def end(self, at: float | None = None) -> Times:
        """The oldest step on the device has ended, now or, if so, earlier."""
        begun, free, now = self._begun.popleft(), self._free, self._clock() if at is None else at
        self._free = now
        gap = max(begun.at - free, 0.0)
        batch = min(max(begun.came - free, 0.0), gap)
        drafts = min(begun.drafts_s, gap - batch)
        step = now - max(begun.at, free)
        return Times(*(int(1e6 * seconds) for seconds in (step, gap, batch, drafts)))


class _Begun:
    """A step on the device. at: when it was begun. drafts_s: waited for drafts before.

    came: when its batch came, without the time in which the result before it was held for drafts.
    """

    __slots__ = ("at", "came", "drafts_s")

    def __init__(self, at: float, came: float, drafts_s: float) -> None:
        self.at, self.came, self.drafts_s = at, came, drafts_s
