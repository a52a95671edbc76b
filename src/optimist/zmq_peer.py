"""One client of the ZeroMQ front: its queue, its live requests, and whether it is still there."""

from __future__ import annotations

from collections import deque

from optimist.messages.client import Pong, ServerMessage
from optimist.messages.codec import encode
from optimist.messages.errors import PeerGone
from optimist.transport.router import Router
from optimist.zmq_request import LiveRequest

MAX_BACKLOG = 1024
"""answers kept for a client that does not read; further ones are dropped and counted"""
PROBE_BUSY = 0.4
PROBE_IDLE = 10.0
"""seconds of silence after which a client with, and without, a live request is sent a Pong"""
GRACE = 0.4
"""seconds between finding a client gone and cancelling its requests"""
STUCK_AFTER = 60.0
"""seconds a client with full queues may go without reading before its requests are cancelled"""
RATE = 1000.0
BURST = 2000.0
"""messages a second that a client may send on average, and at once"""


class Peer:
    """A client that has said hello. dropped: answers that found no room."""

    def __init__(self, router: Router, identity: bytes, now: float) -> None:
        self.live: dict[str, LiveRequest] = {}
        self.dropped = 0
        self._router = router
        self._identity = identity
        self._backlog: deque[bytes] = deque()
        self._sent_at = now
        self._lost_at: float | None = None
        self._tokens = BURST
        self._counted_at = now

    @property
    def congested(self) -> bool:
        """Whether frames wait for room: nothing more should be taken from its streams."""
        return bool(self._backlog)

    def allows(self, now: float) -> bool:
        """Whether it may send one more message now."""
        self._tokens = min(BURST, self._tokens + (now - self._counted_at) * RATE)
        self._counted_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def post(self, message: ServerMessage, now: float) -> None:
        """Send it, behind what waits already, now or when there is room."""
        if len(self._backlog) >= MAX_BACKLOG:
            self.dropped += 1
            return
        self._backlog.append(encode(message))
        self.flush(now)

    def flush(self, now: float) -> None:
        """Send what waits, as far as there is room."""
        try:
            while self._backlog and self._router.send(self._identity, self._backlog[0]):
                self._backlog.popleft()
                self._sent_at = now
            self._lost_at = None
        except PeerGone:
            self._lost_at = now if self._lost_at is None else self._lost_at

    def look(self, now: float) -> bool:
        """Send what waits, or a Pong after a silence. False when the client is gone or stuck."""
        if not self._backlog and now - self._sent_at >= (PROBE_BUSY if self.live else PROBE_IDLE):
            self.post(Pong(nonce=0), now)
        else:
            self.flush(now)
        if self._lost_at is not None:
            return now - self._lost_at < GRACE
        return not self._backlog or now - self._sent_at < STUCK_AFTER

    def close(self) -> None:
        """It is gone: what it asked for ends, or waits for another connection of its."""
        self._backlog.clear()
        for request in self.live.values():
            request.leave()
