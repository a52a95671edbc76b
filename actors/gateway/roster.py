"""The live requests: which continuation a number means, and how each of them can end."""

from __future__ import annotations

from collections.abc import Iterator

from optimist.actors.gateway.continuation import Continuation
from optimist.actors.gateway.feed import Feed
from optimist.actors.gateway.health import Counts
from optimist.actors.gateway.journal import Entry
from optimist.actors.gateway.outbox import Outbox
from optimist.messages.errors import MailboxFull, Problem, raised


class Roster:
    """Live continuations by their number, in order of admission. Tells the scheduler who leaves."""

    def __init__(self, outbox: Outbox, counts: Counts) -> None:
        self._outbox = outbox
        self._counts = counts
        self._live: dict[int, tuple[Continuation, Feed]] = {}

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Entry]:
        return (continuation.entry for continuation, _ in self._live.values())

    def __contains__(self, request: int) -> bool:
        return request in self._live

    def __getitem__(self, request: int) -> tuple[Continuation, Feed]:
        """The live continuation of this number and the feed it flows into."""
        return self._live[request]

    def admit(self, feed: Feed) -> None:
        """Admit every continuation of a request. Raises MailboxFull, and then none is live."""
        for continuation in feed.continuations:
            request = continuation.entry.request
            self._live[request] = (continuation, feed)
            try:
                self._outbox.admit(continuation.entry)
            except MailboxFull:
                del self._live[request]
                self._forget(feed)
                raise

    def finished(self, continuation: Continuation) -> None:
        """It has ended of itself."""
        del self._live[continuation.entry.request]
        self._disown(continuation.entry)
        self._counts.finished += 1

    def retired(self, request: int, problem: Problem | None) -> None:
        """The scheduler has ended it: cancelled, or with the problem that fails the whole request."""
        continuation, feed = self._live.pop(request)
        self._disown(continuation.entry)
        if problem is None:
            self._finish_cancelled(continuation, feed)
        else:
            self._forget(feed)
            self._counts.failed += 1
            feed.fail(raised(problem))

    def broken(self, request: int, problem: Problem) -> None:
        """It cannot go on here, whatever the scheduler thinks: the whole request fails."""
        _, feed = self._live[request]
        self._forget(feed)
        self._counts.failed += 1
        feed.fail(raised(problem))

    def cancel(self, feed: Feed) -> None:
        """End a request with what is there."""
        for continuation in self._forget(feed):
            self._finish_cancelled(continuation, feed)

    def leave(self, feed: Feed) -> None:
        """Its consumer has gone. Nothing happens the second time."""
        self._counts.cancelled += len(self._forget(feed))
        feed.close()

    def fail_all(self, problem: Problem) -> None:
        """End every request with this problem, without a word to a scheduler that is no more."""
        for _, feed in self._live.values():
            feed.fail(raised(problem))
        self._live.clear()
        self._outbox.clear()

    def _disown(self, entry: Entry) -> None:
        """Cancel a second life of a request that has ended.

        A new scheduler may get an Admit that was sent before its Resync was read, and the one in
        answer to it. When the first ends early, the second would run for nobody.
        """
        if entry.admissions > 1:
            self._outbox.cancel(entry.request, None)

    def _finish_cancelled(self, continuation: Continuation, feed: Feed) -> None:
        continuation.finish("cancelled")
        self._counts.cancelled += 1
        feed.offer(continuation)

    def _forget(self, feed: Feed) -> list[Continuation]:
        """Cancel what still runs of a request. Returns it."""
        running = [c for c in feed.continuations if self._live.pop(c.entry.request, None)]
        for continuation in running:
            self._outbox.cancel(continuation.entry.request, None)
        return running
