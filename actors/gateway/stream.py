"""The consumer's end of one request."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from anyio.lowlevel import checkpoint_if_cancelled

from optimist.actors.gateway.chunks import Chunk
from optimist.actors.gateway.continuation import Continuation
from optimist.actors.gateway.feed import Feed


class Hooks(NamedTuple):
    """What a stream tells its gateway. abandoned may be called from any thread, at any moment."""

    taken: Callable[[Continuation], None]
    closed: Callable[[Feed], None]
    cancelled: Callable[[Feed], None]
    abandoned: Callable[[Feed], None]


class Stream:
    """An async iterator over the chunks of one request; one consumer.

    Taking a chunk is what gives the scheduler credit for more, so a slow consumer pauses its own
    request and nothing else. What is not taken waits as one growing chunk per continuation.

    The request is cancelled when the stream is closed or garbage. Cancelling a wait loses nothing:
    take the next chunk later, or close. Iterating raises the ProblemError that ended the request.
    """

    def __init__(self, feed: Feed, hooks: Hooks, seed: int, prompt_len: int) -> None:
        self._feed = feed
        self._hooks = hooks
        self.seed = seed
        self.prompt_len = prompt_len

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Chunk:
        if self._feed.settled:
            # Otherwise it waits, and a cancellation that is due is taken there.
            await checkpoint_if_cancelled()
        while True:
            if (chunk := self.take_nowait()) is not None:
                return chunk
            if self._feed.exhausted:
                raise StopAsyncIteration
            await self._feed.wait()
            if self._feed.problem is not None:
                # Who is cancelled hears of that, and not of the engine that ends for the same reason.
                await checkpoint_if_cancelled()

    def take_nowait(self) -> Chunk | None:
        """The next chunk, or None when there is none now. Raises what ended the request."""
        if (taken := self._feed.take()) is None:
            return None
        continuation, chunk = taken
        self._hooks.taken(continuation)
        return chunk

    async def wait(self) -> None:
        """Return when there is a chunk, an error or the end. Cancelling it loses nothing."""
        await self._feed.wait()

    @property
    def exhausted(self) -> bool:
        """Whether everything has been taken and nothing more comes."""
        return self._feed.exhausted

    def cancel(self) -> None:
        """End the request now; the chunks up to here and an Ending `cancelled` can still be taken."""
        self._hooks.cancelled(self._feed)

    def close(self) -> None:
        """Leave: the request is cancelled and nothing can be taken any more. Idempotent."""
        self._hooks.closed(self._feed)

    async def aclose(self) -> None:
        """The same as close, for `contextlib.aclosing`."""
        self.close()

    def __del__(self) -> None:
        if not self._feed.exhausted:
            self._hooks.abandoned(self._feed)
