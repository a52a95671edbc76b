"""The client protocol, version 1, on a ROUTER socket next to a gateway. See docs/protocol.md."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, get_args

import anyio
import msgspec
from anyio.abc import TaskGroup

from optimist.actors.gateway.actor import Gateway
from optimist.asking import field_at
from optimist.background import Background
from optimist.chunk_messages import to_messages
from optimist.engine_options import model_name
from optimist.messages.client import (
    PROTOCOL_VERSION,
    CancelRequest,
    ClientHello,
    ClientMessage,
    Failed,
    Generate,
    Ping,
    Pong,
    Resume,
    ServerHello,
    ServerMessage,
    StatsRequest,
)
from optimist.messages.codec import MAX_CLIENT_BYTES, MAX_CLIENT_DEPTH, Codec, check_depth, encode
from optimist.messages.errors import (
    EngineEnded,
    InvalidRequest,
    MessageError,
    Overloaded,
    PeerGone,
    Problem,
    ProblemError,
)
from optimist.plain_words import plain_words
from optimist.transport.base import EndOfInbox
from optimist.transport.endpoints import CurveKeys
from optimist.transport.links import Links
from optimist.transport.router import Router
from optimist.wrong_key import HOLE, with_key
from optimist.zmq_peer import Peer
from optimist.zmq_request import LiveRequest, Resumable, check_resumable

_log = logging.getLogger("optimist")

MAX_PEERS = 4096
MAX_NAME = 128
LOOK_EVERY = 0.1


class _Named(msgspec.Struct):
    request: str = ""


class ZmqFront:
    """Answers every frame; none is fatal. One request is one task, which takes from its stream only
    while there is room in the client's queue, so a client that does not read pauses its own rows.

    counts: of messages by their type, `bad` for those that could not be read.
    """

    def __init__(
        self,
        gateway: Gateway,
        router: Router,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts: dict[str, int] = {}
        self._gateway = gateway
        self._router = router
        self._clock = clock
        self._codec: Codec[Any] = Codec(
            get_args(ClientMessage), max_bytes=MAX_CLIENT_BYTES, max_depth=MAX_CLIENT_DEPTH
        )
        self._name_only = msgspec.msgpack.Decoder(_Named)
        self._peers: dict[bytes, Peer] = {}
        self._resumable = Resumable(clock)

    @property
    def live(self) -> int:
        """Requests that have not ended for their clients."""
        return sum(len(peer.live) for peer in self._peers.values())

    async def run(self) -> None:
        """Serve until the router is closed or this is cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._look_after)
            try:
                while True:
                    identity, frame = await self._router.receive()
                    self._take(group, identity, frame)
            except EndOfInbox:
                group.cancel_scope.cancel()

    def farewell(self, problem: Problem) -> None:
        """Tell every client whose request is live that it ends so."""
        for peer in self._peers.values():
            for name in peer.live:
                peer.post(Failed(request=name, problem=problem), self._clock())

    def _take(self, group: TaskGroup, identity: bytes, frame: bytes) -> None:
        peer = self._peers.get(identity)
        try:
            if peer is not None and not peer.allows(self._clock()):
                raise Overloaded("too many messages at once", retry_after=1.0)
            self._answer(group, peer, identity, self._decode(frame))
        except Exception as error:  # noqa: BLE001 - no message of a client may end the front
            failed = Failed(request=self._name_of(peer, frame), problem=_problem(error))
            self._say(peer, identity, failed)

    def _decode(self, frame: bytes) -> ClientMessage:
        try:
            message: ClientMessage = self._codec.decode(frame)
        except (MessageError, ProblemError) as error:
            self._count("bad")
            if isinstance(error, ProblemError):
                raise
            said = self._with_key(str(error), frame)
            field, reason = field_at(said), plain_words(said)
            raise InvalidRequest(f"{field}: {reason}" if field else reason, field=field) from error
        self._count(type(message).__name__)
        return message

    def _with_key(self, said: str, frame: bytes) -> str:
        """What was wrong, with the key of the entry where it is one of a mapping."""
        if HOLE not in said:
            return said
        tree = msgspec.msgpack.decode(frame, strict=False)
        return re.sub(r"(?<=`\$\.)[^`]*", lambda path: with_key(path[0], tree), said)

    def _name_of(self, peer: Peer | None, frame: bytes) -> str:
        """The request that an answer to this frame may name: none that is live already."""
        if len(frame) > MAX_CLIENT_BYTES:
            return ""
        try:
            check_depth(frame, MAX_CLIENT_DEPTH)
            name = self._name_only.decode(frame).request
        except (MessageError, msgspec.MsgspecError, ValueError):
            return ""
        return "" if (peer is not None and name in peer.live) or len(name) > MAX_NAME else name

    def _answer(
        self, group: TaskGroup, peer: Peer | None, identity: bytes, message: ClientMessage
    ) -> None:
        if isinstance(message, ClientHello):
            self._say(self._greet(identity, message), identity, self._hello())
        elif peer is None:
            raise InvalidRequest("expected client_hello first on a connection")
        else:
            self._serve(group, peer, message)

    def _serve(self, group: TaskGroup, peer: Peer, message: ClientMessage) -> None:
        match message:
            case Generate():
                self._begin(group, peer, message)
            case CancelRequest():
                if (live := peer.live.get(message.request)) is not None:
                    live.cancel()
            case Ping():
                peer.post(Pong(nonce=message.nonce), self._clock())
            case StatsRequest():
                peer.post(self._gateway.stats(), self._clock())
            case Resume():
                self._resumable.resume(peer, message)
            case _:
                raise InvalidRequest(f"{type(message).__name__}: not expected here")

    def _greet(self, identity: bytes, hello: ClientHello) -> Peer:
        if hello.version != PROTOCOL_VERSION:
            raise InvalidRequest(
                f"version: expected {PROTOCOL_VERSION}, got {hello.version}", field="version"
            )
        if identity not in self._peers and len(self._peers) >= MAX_PEERS:
            raise Overloaded(f"expected at most {MAX_PEERS} clients", retry_after=10.0)
        return self._peers.setdefault(identity, Peer(self._router, identity, self._clock()))

    def _hello(self) -> ServerHello:
        from importlib.metadata import version

        return ServerHello(
            version=PROTOCOL_VERSION,
            versions=(PROTOCOL_VERSION,),
            server=f"optimist {version('optimist')}",
            model=model_name(self._gateway.config),
            max_model_len=self._gateway.max_model_len or 0,
            vocab_size=self._gateway.tokenizer.vocab_size,
        )

    def _begin(self, group: TaskGroup, peer: Peer, generate: Generate) -> None:
        name = generate.request
        if not 1 <= len(name) <= MAX_NAME:
            raise InvalidRequest(
                f"request: expected 1 to {MAX_NAME} characters, got {len(name)}", field="request"
            )
        if name in peer.live:
            raise InvalidRequest(
                f"request: expected a name that is not in use, got {name!r}", field="request"
            )
        check_resumable(generate)
        live = LiveRequest(name, generate.resume_key, peer, self._clock)
        self._resumable.add(live)
        peer.live[name] = live
        group.start_soon(self._run, live, generate)

    async def _run(self, live: LiveRequest, generate: Generate) -> None:
        try:
            stream = await self._gateway.submit(generate)
            live.begin(stream)
            async for chunk in stream:
                for message in to_messages(live.name, chunk):
                    live.tell(message)
                await live.room()
        except Exception as error:  # noqa: BLE001 - a request fails alone
            live.tell(Failed(request=live.name, problem=_problem(error)))
        finally:
            if live.stream is not None:
                live.stream.close()
            live.over()

    async def _look_after(self) -> None:
        """Cancel what vanished clients asked for, and forget them."""
        while True:
            await anyio.sleep(LOOK_EVERY)
            self._resumable.look()
            for identity, peer in list(self._peers.items()):
                if not peer.look(self._clock()):
                    del self._peers[identity]
                    peer.close()

    def _say(self, peer: Peer | None, identity: bytes, message: ServerMessage) -> None:
        if peer is not None:
            peer.post(message, self._clock())
            return
        try:
            self._router.send(identity, encode(message))
        except PeerGone:
            return

    def _count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1


def _problem(error: Exception) -> Problem:
    if isinstance(error, ProblemError):
        return error.problem
    _log.error("a client's message could not be served", exc_info=error)
    return Problem(code="request_failed", message="an internal error; see the server's log")


@asynccontextmanager
async def serve_zmq(
    gateway: Gateway, endpoint: str, *, curve: CurveKeys | None = None
) -> AsyncIterator[str]:
    """Serve clients while the block runs. Yields the endpoint, with the port that was taken for `*`.

    Raises ConfigError for an endpoint that is unsafe or taken.
    """
    with Links() as links:
        router = Router(links, endpoint, curve=curve)
        front = ZmqFront(gateway, router)
        background = Background(front.run, f"optimist zmq front at {router.endpoint}")
        try:
            yield router.endpoint
        finally:
            front.farewell(EngineEnded("the engine has ended").problem)
            background.cancel()
            with anyio.CancelScope(shield=True):
                await background.wait()
        if isinstance(background.error, Exception):
            raise background.error
