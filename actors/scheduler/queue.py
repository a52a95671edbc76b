"""Requests that wait for a slot: by priority, then in order of arrival."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

from optimist.actors.scheduler.request import Request

OVERTAKE_BOUND = 64
"""how many later arrivals may be admitted before a request that could have been"""

_Heap = list[tuple[tuple[int, int], Request]]


class QueueStatistics(NamedTuple):
    """How full a queue is. entries: of the heaps behind it, those of requests that left included."""

    waiting: int
    parked: int
    entries: int


class Queue:
    """Requests without a slot, and the order in which they are served.

    Smaller priority first, and first come first served within a priority. So that no priority starves
    another, a waiting request is overtaken by at most OVERTAKE_BOUND requests that arrived later: then it
    is overdue, and overdue requests come first, in order of arrival. Nobody is admitted past the head.

    A request without credit is parked: it cannot be served, so it neither blocks others nor is overtaken.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Request] = {}
        self._parked: dict[int, Request] = {}
        self._ranked: _Heap = []
        self._oldest: _Heap = []
        self._overdue: _Heap = []
        self.prompt_tokens = 0
        """tokens of prompts in the queue, parked ones included"""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._parked)

    def statistics(self) -> QueueStatistics:
        """Counts at this moment."""
        heaps = (self._ranked, self._oldest, self._overdue)
        return QueueStatistics(len(self._waiting), len(self._parked), sum(map(len, heaps)))

    def requests(self) -> list[Request]:
        """Everybody in the queue, parked ones last."""
        return [*self._waiting.values(), *self._parked.values()]

    def has_ready(self) -> bool:
        """Whether anybody in it could be served."""
        return bool(self._waiting)

    def push(self, request: Request) -> None:
        """Add a request. One that comes back after a preemption takes its old place."""
        self.prompt_tokens += request.prompt_len
        self._place(request)

    def head(self) -> Request | None:
        """Who is served next, or None."""
        return self._first(self._overdue) or self._first(self._ranked)

    def pop(self) -> Request:
        """Take the head out, and remember whom it overtook. There must be one."""
        request = self.head()
        assert request is not None
        if self._first(self._oldest) is not request:
            for other in self._waiting.values():
                if other.arrival < request.arrival:
                    self._overtake(other)
        self.remove(request)
        return request

    def remove(self, request: Request) -> bool:
        """Take a request out, wherever it stands. False when it is not here."""
        for place in (self._waiting, self._parked):
            if place.get(request.id) is request:
                del place[request.id]
                break
        else:
            return False
        self.prompt_tokens -= request.prompt_len
        return True

    def credited(self, request: Request) -> None:
        """A waiting request has got credit: it may be served now."""
        if request.has_credit and self._parked.pop(request.id, None) is not None:
            self._place(request)

    def _place(self, request: Request) -> None:
        if not request.has_credit:
            self._parked[request.id] = request
            return
        self._waiting[request.id] = request
        heappush(self._ranked, (request.rank, request))
        heappush(self._oldest, ((0, request.arrival), request))
        if request.overtaken >= OVERTAKE_BOUND:
            heappush(self._overdue, ((0, request.arrival), request))
        self._compact()

    def _overtake(self, request: Request) -> None:
        request.overtaken += 1
        if request.overtaken == OVERTAKE_BOUND:
            heappush(self._overdue, ((0, request.arrival), request))

    def _first(self, heap: _Heap) -> Request | None:
        while heap and self._waiting.get(heap[0][1].id) is not heap[0][1]:
            heappop(heap)
        return heap[0][1] if heap else None

    def _compact(self) -> None:
        """Requests that left stay in the heaps until they reach the top: not for ever."""
        if len(self._ranked) > 2 * len(self._waiting) + 64:
            waiting = list(self._waiting.values())
            self._ranked = [(request.rank, request) for request in waiting]
            self._oldest = [((0, request.arrival), request) for request in waiting]
            self._overdue = [e for e in self._oldest if e[1].overtaken >= OVERTAKE_BOUND]
            for heap in (self._ranked, self._oldest, self._overdue):
                heapify(heap)
