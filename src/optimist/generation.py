"""What `generate` returns: an async iterator that ends its request when its consumer leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from optimist.actors.gateway.chunks import Chunk, Completion, complete


class Source(Protocol):
    """Where chunks come from: a stream of a gateway or of a connection."""

    async def __anext__(self) -> Chunk: ...

    def close(self) -> None: ...


class Generation:
    """An async iterator over the chunks of one request. It begins with the first chunk asked for.

    The request is cancelled when the iteration is left: by `aclose`, by cancelling or timing out the
    task that waits for a chunk, or by dropping the iterator. Iterating raises InvalidRequest,
    TooLarge, Overloaded, DeadlineExceeded, RequestFailed or an EngineError.
    """

    def __init__(self, open_source: Callable[[], Awaitable[Source]]) -> None:
        self._open: Callable[[], Awaitable[Source]] | None = open_source
        self._source: Source | None = None
        self._busy = False

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> Chunk:
        if self._busy:
            raise RuntimeError("generate: a chunk is being waited for already; iterate in one task")
        self._busy = True
        try:
            return await (await self._opened()).__anext__()
        except BaseException:
            self._leave()
            raise
        finally:
            self._busy = False

    async def aclose(self) -> None:
        """Cancel the request unless it has ended. Idempotent."""
        self._leave()

    async def complete(self) -> Completion:
        """Read to the end."""
        return complete([chunk async for chunk in self])

    async def _opened(self) -> Source:
        if self._source is None:
            if self._open is None:
                raise StopAsyncIteration
            opening, self._open = self._open, None
            self._source = await opening()
        return self._source

    def _leave(self) -> None:
        self._open = None
        source, self._source = self._source, None
        if source is not None:
            source.close()
