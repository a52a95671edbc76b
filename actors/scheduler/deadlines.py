"""Which requests are not worth computing any more."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from optimist.actors.scheduler.request import Request


class Deadlines:
    """Deadlines of live requests, the earliest first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Request]] = []
        self._live: set[Request] = set()

    def __len__(self) -> int:
        """Entries that are kept, those of requests that ended included."""
        return len(self._heap)

    def add(self, request: Request) -> None:
        """Watch a request, if it has a deadline."""
        if request.deadline != float("inf"):
            heappush(self._heap, (request.deadline, request.arrival, request))
            self._live.add(request)
        if len(self._heap) > 2 * len(self._live) + 64:
            self._heap = [entry for entry in self._heap if entry[2] in self._live]
            heapify(self._heap)

    def remove(self, request: Request) -> None:
        """The request has ended."""
        self._live.discard(request)

    def passed(self, now: float) -> list[Request]:
        """The requests whose deadline is not after `now`; they are no longer watched."""
        late = []
        while (first := self._first()) is not None and first.deadline <= now:
            self._live.discard(first)
            late.append(first)
        return late

    def wait(self, now: float) -> float | None:
        """Seconds until the next deadline, None without one."""
        first = self._first()
        return None if first is None else max(first.deadline - now, 0.0)

    def _first(self) -> Request | None:
        while self._heap and self._heap[0][2] not in self._live:
            heappop(self._heap)
        return self._heap[0][2] if self._heap else None
