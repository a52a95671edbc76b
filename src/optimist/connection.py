"""A client's connection to a gateway: greets, sends, and hands out what comes."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any, get_args

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from optimist.away import Away
from optimist.background import Background, Loop
from optimist.chunk_messages import News
from optimist.messages.client import (
    PROTOCOL_VERSION,
    CancelRequest,
    ClientHello,
    ClientMessage,
    Delta,
    Failed,
    Finished,
    Generate,
    Ping,
    Pong,
    PromptLogprobs,
    ServerHello,
    ServerMessage,
    Stats,
    StatsRequest,
)
from optimist.messages.codec import MAX_CLIENT_BYTES, Codec, encode
from optimist.messages.errors import (
    EngineClosed,
    EngineEnded,
    InvalidRequest,
    MessageError,
    PeerGone,
    ProblemError,
    RequestFailed,
    WrongOwner,
    raised,
)
from optimist.remote_stream import Inflow, RemoteStream
from optimist.transport.dealer import Dealer
from optimist.transport.endpoints import CurveKeys
from optimist.transport.links import Links

_log = logging.getLogger("optimist")

RETRY = 0.02
"""seconds between tries to send while there is no connection, or no room"""
MAX_ANSWER_BYTES = 64 * 2**20


class Waiting:
    """Somebody waits for one answer. answer: None while there is none."""

    def __init__(self) -> None:
        self.answer: ServerMessage | None = None
        self.problem: ProblemError | None = None
        self._event = anyio.Event()

    def give(self, answer: ServerMessage) -> None:
        """This is it."""
        self.answer = answer
        self._event.set()

    def fail(self, problem: ProblemError) -> None:
        """There will be none."""
        self.problem = problem
        self._event.set()

    async def get(self) -> Any:
        """The answer, or raise the problem."""
        await self._event.wait()
        if self.problem is not None:
            # Who is cancelled hears of that, and not of a connection that ends for the same reason.
            await checkpoint_if_cancelled()
            raise self.problem
        return self.answer


class Connection:
    """Owns one DEALER socket in a task of its own, on the loop and thread that made it.

    patience: seconds for which requests wait for a new connection when theirs is lost.
    """

    def __init__(
        self, endpoint: str, name: str, curve: CurveKeys | None, patience: float = 30.0
    ) -> None:
        self._endpoint = endpoint
        self._name = name
        self._links = Links()
        try:
            self._dealer = Dealer(self._links, endpoint, max_bytes=MAX_ANSWER_BYTES, curve=curve)
        except BaseException:
            self._links.close()
            raise
        self._codec: Codec[Any] = Codec(get_args(ServerMessage), max_bytes=MAX_ANSWER_BYTES)
        self._numbers = count(1)
        self._hello = Waiting()
        self._inflows: dict[str, Inflow] = {}
        self._away = Away(patience)
        self._pings: dict[int, Waiting] = {}
        self._stats: deque[Waiting] = deque()
        self._outbox: deque[bytes] = deque()
        self._parked = anyio.CancelScope()
        self._end: ProblemError | None = None
        self._background = Background(self._main, f"optimist client of {endpoint}")

    @property
    def over(self) -> bool:
        """Whether it has ended, or its loop was closed under it."""
        return self._background.ended.is_set() or self._background.loop.closed

    async def hello(self, timeout: float) -> ServerHello:
        """What the gateway said of itself. Raises what it refused, EngineEnded when nobody answers."""
        await self.ready()
        with anyio.move_on_after(timeout):
            hello: ServerHello = await self._hello.get()
            return hello
        await checkpoint_if_cancelled()
        raise EngineEnded(f"{self._endpoint}: expected a hello within {timeout:g} s, got none")

    async def open(self, generate: Generate) -> RemoteStream:
        """Begin a request; the gateway must have said hello. Raises InvalidRequest when it is too long."""
        await self.ready()
        if (size := len(encode(generate))) > MAX_CLIENT_BYTES:
            raise InvalidRequest(f"request: expected at most {MAX_CLIENT_BYTES} bytes, got {size}")
        generate = self._away.resumable(generate)
        inflow = self._inflows[generate.request] = Inflow(generate)
        self._post(generate)
        leave = partial(self._leave, generate.request)
        return RemoteStream(inflow, leave, partial(self._background.loop.soon, leave))

    async def ping(self) -> None:
        """Return when the gateway has answered."""
        await self.ready()
        nonce = next(self._numbers)
        waiting = self._pings[nonce] = Waiting()
        self._post(Ping(nonce=nonce))
        try:
            await waiting.get()
        finally:
            self._pings.pop(nonce, None)

    async def stats(self) -> Stats:
        """How busy the engine is."""
        await self.ready()
        waiting = Waiting()
        self._stats.append(waiting)
        self._post(StatsRequest())
        answer: Stats = await waiting.get()
        return answer

    async def close(self) -> None:
        """Cancel every request and disconnect. Not interrupted by cancellation."""
        if self.over or Loop.current() != self._background.loop:
            return
        self._end = self._end or EngineClosed("the client was closed")
        self._background.cancel()
        with anyio.CancelScope(shield=True):
            await self._background.wait()

    def abandon(self) -> None:
        """Disconnect although nobody waits for it. From any thread."""
        self._background.loop.soon(self._background.cancel)

    async def ready(self) -> None:
        """The same as check, for one who may have been cancelled and hears of that first."""
        await checkpoint_if_cancelled()
        self.check()

    def check(self) -> None:
        """Raise unless it can be used, here and now."""
        if self._end is not None or self.over:
            raise self._end or EngineEnded("the client's event loop has ended; connect again")
        if Loop.current() != self._background.loop:
            raise WrongOwner("the client runs on another event loop or thread; make one here")

    def _post(self, message: ClientMessage) -> None:
        frame = encode(message)
        if self._outbox or not self._dealer.send(frame):
            self._outbox.append(frame)
            self._parked.cancel()

    def _leave(self, name: str) -> None:
        inflow = self._inflows.pop(name, None)
        if inflow is None or self.over:
            return
        self._away.leave(name, inflow)
        if self._away.since is None:
            self._post(CancelRequest(request=name))

    async def _main(self) -> None:
        try:
            self._greet()
            while True:
                self._receive()
                while self._outbox and self._dealer.send(self._outbox[0]):
                    self._outbox.popleft()
                if self._away.too_long(anyio.current_time()):
                    self._lose(RequestFailed(f"{self._endpoint}: {self._away.give_up()}"))
                timeout = RETRY if self._outbox or self._away.since is not None else None
                with anyio.move_on_after(timeout) as self._parked:
                    await self._dealer.wait()
        finally:
            self._end = self._end or EngineEnded("the client's task has ended; connect again")
            for name in self._inflows:
                self._dealer.send(encode(CancelRequest(request=name)))
            self._lose(self._end)
            self._links.close()

    def _receive(self) -> None:
        try:
            while (frame := self._dealer.receive_nowait()) is not None:
                self._dispatch(self._codec.decode(frame))
        except PeerGone:
            self._away.lost(anyio.current_time())
            problem = RequestFailed(f"{self._endpoint}: the connection was lost")
            self._lose(problem, [name for name, inflow in self._inflows.items() if not inflow.key])
            self._greet()
        except MessageError as error:
            _log.warning("%s sent what is no message: %s", self._endpoint, error)

    def _greet(self) -> None:
        if self._hello.answer is not None or self._hello.problem is not None:
            self._hello = Waiting()
        self._outbox.clear()
        self._post(ClientHello(version=PROTOCOL_VERSION, client=self._name))

    def _dispatch(self, message: ServerMessage) -> None:
        match message:
            case ServerHello():
                self._hello.give(message)
                for again in self._away.back(self._inflows):
                    self._post(again)
            case PromptLogprobs() | Delta() | Finished():
                self._flow(message)
            case Failed() if message.request:
                self._failed(message)
            case Failed():
                self._refused(raised(message.problem))
            case Pong():
                if (waiting := self._pings.get(message.nonce)) is not None:
                    waiting.give(message)
            case Stats():
                if self._stats:
                    self._stats.popleft().give(message)

    def _failed(self, message: Failed) -> None:
        if (inflow := self._inflows.get(message.request)) is None:
            self._away.ended(message.request)
        elif self._away.never_came(message) and inflow.asked is not None:
            self._post(inflow.asked)
        else:
            del self._inflows[message.request]
            inflow.fail(raised(message.problem))

    def _flow(self, message: News) -> None:
        if (inflow := self._inflows.get(message.request)) is not None:
            inflow.put(message)
            if inflow.ended:
                del self._inflows[message.request]
        elif isinstance(message, Finished):
            self._away.ended(message.request)

    def _refused(self, problem: ProblemError) -> None:
        if self._hello.answer is None:
            self._hello.fail(problem)
        else:
            _log.warning("%s refused a message: %s", self._endpoint, problem)

    def _lose(self, problem: ProblemError, names: Sequence[str] | None = None) -> None:
        """Nothing that was asked will be answered. names: of these requests alone."""
        for name in list(self._inflows) if names is None else names:
            self._inflows.pop(name).fail(problem)
        for waiting in (*self._pings.values(), *self._stats):
            waiting.fail(problem)
        self._stats.clear()
        if self._end is not None:
            self._hello.fail(problem)
