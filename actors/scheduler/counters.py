"""What the scheduler counts, and when it says so."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import zip_longest

from optimist.actors.scheduler.acceptance import Totals
from optimist.messages.results import StepResult

STATS_INTERVAL = 0.25
"""seconds between two SchedulerStats at the least"""
NO_DRAFTS = Totals()


@dataclass(slots=True)
class Counters:
    """Totals of this life of the scheduler.

    emitted_tokens: sent and not taken back by a Cancel. wasted_tokens: computed and not sent, or taken
    back. drafts: of earlier lives of the device. ignored: messages and rows that were of no use, by reason.
    """

    steps: int = 0
    preemptions: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    emitted_tokens: int = 0
    wasted_tokens: int = 0
    last_step_at: float = 0.0
    step_us: int = 0
    gap_us: int = 0
    batch_us: int = 0
    drafts_us: int = 0
    steps_ahead: int = 0
    drafts: Totals = NO_DRAFTS
    ignored: Counter[str] = field(default_factory=Counter)

    def settled(self, result: StepResult) -> None:
        """A step settled."""
        self.steps += 1
        self.step_us += result.step_us
        self.gap_us += result.gap_us
        self.batch_us += result.batch_us
        self.drafts_us += result.drafts_us
        self.steps_ahead += not result.batch_us


def together(one: Totals, other: Totals) -> Totals:
    """Both counts as one."""
    positions = zip_longest(one.per_position, other.per_position, fillvalue=0)
    return Totals(
        rows=one.rows + other.rows,
        drafted=one.drafted + other.drafted,
        accepted=one.accepted + other.accepted,
        per_position=tuple(a + b for a, b in positions),
    )


class Pace:
    """Lets something through at most once in STATS_INTERVAL, and the last one always.

    Whoever asks is answered at once.
    """

    def __init__(self) -> None:
        self._next = float("-inf")
        self._changed = False

    def changed(self) -> None:
        """There is something new to say."""
        self._changed = True

    def asked(self) -> None:
        """Somebody new wants to hear what there is, whoever has heard it before."""
        self._changed, self._next = True, float("-inf")

    def due(self, now: float) -> bool:
        """Whether to say it now; True at most once in an interval."""
        if not self._changed or now < self._next:
            return False
        self._changed, self._next = False, now + STATS_INTERVAL
        return True

    def wait(self, now: float) -> float | None:
        """Seconds until it is due, None while nothing is new."""
        return max(self._next - now, 0.0) if self._changed else None
