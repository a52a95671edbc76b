"""Requests that ended by their own tokens a moment ago."""

from __future__ import annotations

from optimist.actors.scheduler.request import Request

REMEMBERED = 256
"""requests that ended and can still be cut"""


class Recently:
    """Remembers the latest REMEMBERED requests that ended by their own tokens.

    The gateway may find a stop string in tokens that were sent before the request ended; its Cancel then
    comes too late to end anything, but what it cuts must not stay in the cache or in the bill.
    """

    def __init__(self) -> None:
        self._requests: dict[int, Request] = {}

    def add(self, request: Request) -> None:
        """The request has ended."""
        self._requests[request.id] = request
        if len(self._requests) > REMEMBERED:
            del self._requests[next(iter(self._requests))]

    def take(self, request: int) -> Request | None:
        """The request of this id, once, if it is remembered."""
        return self._requests.pop(request, None)

    def forget_all(self) -> None:
        """The device is gone, and with it what could be cut."""
        self._requests.clear()
