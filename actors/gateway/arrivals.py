"""What the scheduler sends of requests, held against what is known of them."""

from __future__ import annotations

from optimist.actors.gateway.health import Counts
from optimist.actors.gateway.journal import Entry
from optimist.actors.gateway.outbox import Outbox
from optimist.actors.gateway.roster import Roster
from optimist.messages.errors import Problem
from optimist.messages.requests import Placed, Retired, Scored, Tokens


class Arrivals:
    """Hands it to the continuations. Repeats are dropped, a gap fails the request; counts the useless."""

    def __init__(self, roster: Roster, outbox: Outbox, counts: Counts) -> None:
        self._roster = roster
        self._outbox = outbox
        self._counts = counts
        self._alone: int | None = None

    def take(self, message: Placed | Scored | Tokens | Retired) -> bool:
        """Whether a request has got on."""
        if isinstance(message, Placed):
            self._alone = message.request if message.alone else None
        if message.request not in self._roster:
            self._counts.stale += 1
            return False
        match message:
            case Placed():
                self._roster[message.request][0].entry.place(message)
                return False
            case Scored():
                return self._scored(message)
            case Tokens():
                return self._tokens(message)
            case Retired():
                self._roster.retired(message.request, message.problem)
                return False

    def in_a_step(self, entry: Entry) -> bool:
        """Whether a request is in a step of the present scheduler, as far as that has told."""
        alone = self._alone in (None, entry.request)
        return entry.placed and entry.busy and alone

    def restarted(self) -> None:
        """Another scheduler knows of no steps."""
        self._alone = None

    def _tokens(self, tokens: Tokens) -> bool:
        continuation, feed = self._roster[tokens.request]
        entry = continuation.entry
        if (skip := entry.repeated(tokens)) is None:
            self._missing(tokens.request, "index", len(entry.delivered), tokens.index)
            return False
        if (cut := continuation.push(tokens, skip)) is not None:
            self._outbox.cancel(tokens.request, cut.keep)
        if continuation.end is not None:
            self._roster.finished(continuation)
        feed.offer(continuation)
        return True

    def _scored(self, scored: Scored) -> bool:
        continuation, feed = self._roster[scored.request]
        entry = continuation.entry
        if (skip := entry.scored_before(scored)) is None:
            self._missing(scored.request, "prompt token", entry.scored, scored.first)
            return False
        continuation.score(scored, skip)
        feed.offer(continuation)
        return True

    def _missing(self, request: int, what: str, expected: int, got: int) -> None:
        self._counts.gaps += 1
        message = f"tokens are missing: expected {what} {expected}, got {got}"
        self._roster.broken(request, Problem(code="request_failed", message=message))
