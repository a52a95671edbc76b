"""The consumer's end of one request of a Client."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from anyio.lowlevel import checkpoint_if_cancelled

from optimist.actors.gateway.chunks import Chunk
from optimist.chunk_messages import News, join, to_chunk
from optimist.messages.client import Delta, Finished, Generate
from optimist.messages.errors import ProblemError
from optimist.transport.waker import Waker


class Inflow:
    """What has come for a request and was not taken: one growing chunk a continuation.

    Bounded by what the request may emit at all. key: what lets another connection go on with it, "" for
    nothing. next_index: of the token that would come next, where there is a key. asked: what asked for it,
    as long as no token has come.
    """

    def __init__(self, asked: Generate) -> None:
        self.asked: Generate | None = asked
        self.key = asked.resume_key
        self.next_index = 0
        self.problem: ProblemError | None = None
        self.closed = False
        self._open = asked.params.n
        self._pending: dict[int, list[Chunk]] = {}
        self._order: deque[int] = deque()
        self._waker = Waker()

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self._open == 0 or self.problem is not None or self.closed

    def put(self, message: News) -> None:
        """There is more."""
        if message.choice not in self._pending:
            self._pending[message.choice] = []
            self._order.append(message.choice)
        self._pending[message.choice].append(to_chunk(message))
        if isinstance(message, Delta):
            self.next_index = message.index + len(message.token_ids)
            self.asked = None
        self._open -= isinstance(message, Finished)
        self._waker.wake()

    def fail(self, problem: ProblemError) -> None:
        """It ends with an error, raised behind what has come."""
        if not self.ended:
            self.problem = problem
        self._waker.wake()

    def close(self) -> None:
        """Nobody takes any more."""
        self.closed = True
        self._order.clear()
        self._pending.clear()
        self._waker.wake()

    async def take(self) -> Chunk:
        """The next chunk. Cancelling loses nothing. Raises StopAsyncIteration at the end."""
        while not (self._order or self.ended):
            await self._waker.park()
        # Who is cancelled hears of that, and not of the connection that ends for the same reason.
        await checkpoint_if_cancelled()
        if not self._order:
            if self.problem is not None and not self.closed:
                raise self.problem
            raise StopAsyncIteration
        return join(self._pending.pop(self._order.popleft()))


class RemoteStream:
    """An async iterator over the chunks of one request; one consumer.

    leave: called once when the consumer goes before the end; abandon: the same from any thread, for
    a stream that has become garbage.
    """

    def __init__(
        self, inflow: Inflow, leave: Callable[[], None], abandon: Callable[[], None]
    ) -> None:
        self._inflow = inflow
        self._leave = leave
        self._abandon = abandon

    def __aiter__(self) -> RemoteStream:
        return self

    async def __anext__(self) -> Chunk:
        return await self._inflow.take()

    def close(self) -> None:
        """Leave: the request is cancelled unless it has ended. Idempotent."""
        if not self._inflow.ended:
            self._leave()
        self._inflow.close()

    def __del__(self) -> None:
        if not self._inflow.ended:
            self._abandon()
