"""Whether the engine is well, from what the gateway can see."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

SPEED_ONLY = ("proposer",)
"""actors whose loss makes requests slower, and nothing worse"""

STALL_AFTER = 30.0
"""seconds without a step, while there is something to do, after which the engine is not well"""


class Counts(msgspec.Struct):
    """What the gateway has seen since its start.

    admitted: requests; finished, cancelled: continuations; failed, refused: requests.
    stale, gaps, unknown: messages that were ignored, because they came too late, skipped tokens, or
    mean nothing to a gateway.
    dropped: frames that were no messages, by the actor on whose socket they came.
    """

    admitted: int = 0
    finished: int = 0
    cancelled: int = 0
    failed: int = 0
    refused: int = 0
    stale: int = 0
    gaps: int = 0
    unknown: int = 0
    dropped: dict[str, int] = {}


class Health(NamedTuple):
    """healthy: requests get on, or there are none. accepting: new ones are taken. reason: if not."""

    healthy: bool
    accepting: bool
    reason: str


class Pulse:
    """Signs of life, and losses."""

    def __init__(self, now: float) -> None:
        self._last = now
        self._lost: dict[str, str] = {}

    def beat(self, at: float) -> None:
        """A step happened, or there was nothing to do."""
        self._last = max(self._last, at)

    def fault(self, actor: str, reason: str) -> None:
        """An actor is lost."""
        if actor not in SPEED_ONLY:
            self._lost[actor] = reason

    def lost(self, actor: str) -> bool:
        """Whether this actor is lost at the moment."""
        return actor in self._lost

    def restarted(self, actor: str, now: float) -> None:
        """It is back, and has a moment to show it."""
        self._lost.pop(actor, None)
        self.beat(now)

    def reason(self, now: float, *, busy: bool) -> str:
        """What is wrong, or "". busy: some request could get on."""
        if self._lost:
            return "; ".join(f"{actor} is lost: {why}" for actor, why in self._lost.items())
        if busy and now - self._last > STALL_AFTER:
            return f"no step for {now - self._last:.0f} s, although requests could get on"
        return ""
