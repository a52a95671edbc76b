"""What the scheduler counts, and when it says so."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

STATS_INTERVAL = 0.25
"""seconds between two SchedulerStats at the least"""


@dataclass(slots=True)
class Counters:
    """Totals of this life of the scheduler.

    emitted_tokens: sent and not taken back by a Cancel. wasted_tokens: computed and not sent, or taken
    back. ignored: messages and rows that were of no use, by reason.
    """

    steps: int = 0
    preemptions: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    emitted_tokens: int = 0
    wasted_tokens: int = 0
    last_step_at: float = 0.0
    ignored: Counter[str] = field(default_factory=Counter)


class Pace:
    """Lets something through at most once in STATS_INTERVAL, and the last one always."""

    def __init__(self) -> None:
        self._next = float("-inf")
        self._changed = False

    def changed(self) -> None:
        """There is something new to say."""
        self._changed = True

    def due(self, now: float) -> bool:
        """Whether to say it now; True at most once in an interval."""
        if not self._changed or now < self._next:
            return False
        self._changed, self._next = False, now + STATS_INTERVAL
        return True

    def wait(self, now: float) -> float | None:
        """Seconds until it is due, None while nothing is new."""
        return max(self._next - now, 0.0) if self._changed else None
