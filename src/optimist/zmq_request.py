"""One request of a client: what it is told, and where that can be read again after its connection is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio

from optimist.actors.gateway.chunks import joined
from optimist.actors.gateway.stream import Stream
from optimist.messages.client import Delta, Generate, Resume, ServerMessage
from optimist.messages.errors import InvalidRequest, RequestFailed

if TYPE_CHECKING:
    from optimist.zmq_peer import Peer

KEEP_SECONDS = 30.0
"""how long a request with a resume_key stays when its client is gone, and its end can be asked for again"""
MAX_KEPT = 1024
"""requests that have ended and can be asked for again"""
ROOM_EVERY = 0.02
"""seconds between looks for room in the queue of a client that does not read"""

Clock = Callable[[], float]


class LiveRequest:
    """A request and whoever reads it. key: what lets another connection go on with it, "" for nothing.

    stream: None while its prompt is encoded. peer: its client, None while that is away. left_at: since
    when nobody reads it, or when it had ended.
    """

    def __init__(self, name: str, key: str, peer: Peer, clock: Clock) -> None:
        self.name, self.key = name, key
        self.stream: Stream | None = None
        self.peer: Peer | None = peer
        self.left_at: float | None = None
        self.ended = False
        self._clock = clock
        self._cancelled = False
        self._closed = False
        self._come = anyio.Event()
        self._next = 0
        self._told: list[Delta] = []
        self._last: ServerMessage | None = None

    def begin(self, stream: Stream) -> None:
        """It has been admitted."""
        self.stream = stream
        if self._cancelled:
            stream.cancel()

    def tell(self, message: ServerMessage) -> None:
        """Send something to its client, and keep it where it could be asked for again."""
        if self.key and isinstance(message, Delta):
            self._told.append(message)
            self._next = message.index + len(message.token_ids)
        elif self.key:
            self._last = message
        if self.peer is not None:
            self.peer.post(message, self._clock())

    async def room(self) -> None:
        """Wait until its client is there and reads, or there is nothing left to wait for."""
        while not self._closed:
            if self.peer is None:
                await self._come.wait()
            elif self.peer.congested and not (self.stream is None or self.stream.exhausted):
                await anyio.sleep(ROOM_EVERY)
                if self.peer is not None:
                    self.peer.flush(self._clock())
            else:
                return

    def cancel(self) -> None:
        """End it; its Finished still follows."""
        self._cancelled = True
        if self.stream is not None:
            self.stream.cancel()

    def close(self) -> None:
        """End it; nobody listens any more."""
        self._cancelled = self._closed = True
        self._come.set()
        if self.stream is not None:
            self.stream.close()

    def leave(self) -> None:
        """Its client is gone. Without a key that ends it."""
        self.peer = None
        if not self.key:
            self.close()
        elif self.left_at is None:
            self.left_at = self._clock()
            self._come = anyio.Event()

    def over(self) -> None:
        """Nothing more will be told."""
        self.ended = True
        if self.peer is not None:
            self.peer.live.pop(self.name, None)
        self.left_at = self._clock()

    def resume(self, peer: Peer, index: int) -> None:
        """Go on to this client from a token index. Raises InvalidRequest for one that is no end of a delta."""
        if index != self._next and index not in {delta.index for delta in self._told}:
            raise InvalidRequest(
                f"next_index: expected the end of a delta, at most {self._next}, got {index}",
                field="next_index",
            )
        if self.peer is not None and self.peer is not peer:
            self.peer.live.pop(self.name, None)
        if again := [delta for delta in self._told if delta.index >= index]:
            peer.post(_joined(again), self._clock())
        if self._last is not None:
            peer.post(self._last, self._clock())
        if not self.ended:
            self.peer, self.left_at = peer, None
            peer.live[self.name] = self
            self._come.set()


def _joined(deltas: Sequence[Delta]) -> Delta:
    """All of them as one: a client that comes back is not flooded."""
    first = deltas[0]
    return Delta(
        request=first.request,
        index=first.index,
        token_ids=tuple(token for delta in deltas for token in delta.token_ids),
        text="".join(delta.text for delta in deltas),
        logprobs=joined(delta.logprobs for delta in deltas),
    )


class Resumable:
    """Requests that another connection may go on with, by name and key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._requests: dict[tuple[str, str], LiveRequest] = {}

    def add(self, request: LiveRequest) -> None:
        """One more. Raises InvalidRequest when there is a live one of this name and key."""
        if not request.key:
            return
        held = self._requests.pop((request.name, request.key), None)
        if held is not None and not held.ended:
            self._requests[request.name, request.key] = held
            raise InvalidRequest(
                "resume_key: expected one that no live request of this name has", field="resume_key"
            )
        ended = [name for name, one in self._requests.items() if one.ended]
        for name in ended[: max(0, len(ended) + 1 - MAX_KEPT)]:
            del self._requests[name]
        self._requests[request.name, request.key] = request

    def resume(self, peer: Peer, message: Resume) -> None:
        """Let a client go on. Raises RequestFailed where there is no such request, or no more."""
        request = self._requests.get((message.request, message.resume_key))
        if request is None:
            raise RequestFailed(
                f"no request of this name and resume_key is kept; one is for {KEEP_SECONDS:g} s after "
                "its client was lost or it ended: ask for it again"
            )
        if peer.live.get(message.request, request) is not request:
            raise InvalidRequest(
                f"request: expected a name that is not in use, got {message.request!r}",
                field="request",
            )
        request.resume(peer, message.next_index)

    def look(self) -> None:
        """End and forget those whose client stays away."""
        now = self._clock()
        for name, request in list(self._requests.items()):
            if request.left_at is not None and now - request.left_at >= KEEP_SECONDS:
                del self._requests[name]
                request.close()


def check_resumable(generate: Generate) -> None:
    """Raise InvalidRequest where a key comes with what cannot be told from a token index on."""
    if not generate.resume_key:
        return
    if generate.params.n != 1:
        raise InvalidRequest(
            f"resume_key: expected n to be 1, got {generate.params.n}", field="resume_key"
        )
    if generate.params.prompt_logprobs is not None:
        raise InvalidRequest("resume_key: expected no prompt_logprobs", field="resume_key")
