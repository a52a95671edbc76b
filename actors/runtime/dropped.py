"""What is dropped on an actor's socket, in the log: seldom enough that a flood does not fill it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from optimist.messages.errors import OptimistError

_log = logging.getLogger("optimist")


class DroppedFrames:
    """The report of a PullInbox: warns of the first frame, the tenth, the hundredth and so on.

    count: told of each.
    """

    def __init__(self, actor: str, count: Callable[[], None] = lambda: None) -> None:
        self._actor = actor
        self._count = count
        self._dropped = 0
        self._next = 1

    def __call__(self, error: OptimistError) -> None:
        """One more was dropped, for this reason."""
        self._dropped += 1
        self._count()
        if self._dropped == self._next:
            self._next *= 10
            _log.warning(
                "%s: something else than an actor sends to it; %d dropped so far, the last: %s",
                self._actor,
                self._dropped,
                error,
            )
