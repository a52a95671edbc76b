"""Between the gateway, which fills a request's continuations, and the consumer, which takes them."""

from __future__ import annotations

from collections import deque

from optimist.actors.gateway.chunks import Chunk
from optimist.actors.gateway.continuation import Continuation
from optimist.messages.errors import ProblemError
from optimist.transport.waker import Waker


class Feed:
    """Continuations with something to take, in the order in which they got it, and how it ends.

    Bounded: a continuation waits here once, however much it holds.
    """

    def __init__(self, continuations: tuple[Continuation, ...]) -> None:
        self.continuations = continuations
        self.problem: ProblemError | None = None
        self.closed = False
        self._ready: deque[Continuation] = deque()
        self._waker = Waker()

    @property
    def exhausted(self) -> bool:
        """Whether nothing more can be taken, now or later."""
        return not self._ready and (self.closed or self._ended())

    @property
    def settled(self) -> bool:
        """Whether `take` has something to say, or never will: whether `wait` returns at once."""
        return bool(self._ready) or self.problem is not None or self.exhausted

    def offer(self, continuation: Continuation) -> None:
        """There is more of this continuation."""
        if continuation.pending and continuation not in self._ready:
            self._ready.append(continuation)
        self._waker.wake()

    def fail(self, problem: ProblemError) -> None:
        """End the request with an error, raised behind what can still be taken. The first stands."""
        if self.problem is None and not self._ended():
            self.problem = problem
        self._waker.wake()

    def close(self) -> None:
        """The consumer has left: nothing can be taken any more."""
        self.closed = True
        self._ready.clear()
        self._waker.wake()

    def take(self) -> tuple[Continuation, Chunk] | None:
        """The next chunk and whose it is, or None. Raises the problem that ended the request."""
        if self._ready:
            continuation = self._ready.popleft()
            return continuation, continuation.take()
        if self.problem is not None and not self.closed:
            raise self.problem
        return None

    async def wait(self) -> None:
        """Return when `take` has something to say. Cancelling it loses nothing.

        Raises WrongOwner when another consumer waits, or in another thread than the first time.
        """
        while not self.settled:
            await self._waker.park()

    def _ended(self) -> bool:
        # Asked for every token: a generator would take as long again as what it looks at.
        for continuation in self.continuations:
            if continuation.end is None:
                return False
        return True
