"""An engine elsewhere, over ZeroMQ, on asyncio, uvloop or trio."""

from __future__ import annotations

import time
import warnings
from itertools import count
from types import TracebackType
from typing import Self, Unpack
from uuid import uuid4

from anyio.lowlevel import checkpoint_if_cancelled

from optimist.actors.gateway.chunks import Completion
from optimist.asking import Options, Prompt, ask
from optimist.connection import Connection
from optimist.generation import Generation
from optimist.messages.client import Generate, ServerHello, Stats
from optimist.messages.errors import ConfigError, EngineClosed, EngineEnded
from optimist.messages.params import SamplingParams
from optimist.remote_stream import RemoteStream
from optimist.transport.endpoints import CurveKeys


class Client:
    """Asks a served engine: `async with Client("tcp://127.0.0.1:5555") as client:`.

    endpoint: of `optimist serve --zmq`. timeout: seconds to wait for the gateway's hello.
    curve: keys for an encrypted endpoint. name: told to the gateway. resume_within: seconds for which
    requests wait when their connection is lost, see below; the gateway keeps them for 30.

    It reconnects by itself. Requests go on where they were, and no token is lost or doubled. Those with
    n > 1 or prompt_logprobs cannot, and fail with RequestFailed; so does any that the gateway does not
    know any more, or whose connection is not back in time. It belongs to the event loop that started
    it. Raises ConfigError for a bad endpoint or a negative time.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        name: str = "optimist",
        timeout: float = 10.0,
        curve: CurveKeys | None = None,
        resume_within: float = 30.0,
    ) -> None:
        if not resume_within >= 0:
            raise ConfigError(f"resume_within: expected seconds >= 0, got {resume_within:g}")
        self._resume_within = resume_within
        self._connection: Connection | None = None
        self._closed = False
        self._endpoint = endpoint
        self._name = name
        self._timeout = timeout
        self._curve = curve
        self._prefix = uuid4().hex[:8]
        self._numbers = count(1)

    async def start(self) -> None:
        """Connect. Raises ConfigError for a bad endpoint, EngineEnded when nobody answers."""
        if self._connection is not None and not self._connection.over:
            self._connection.check()
            return
        self._closed = False
        self._connection = Connection(self._endpoint, self._name, self._curve, self._resume_within)
        try:
            await self._connection.hello(self._timeout)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Cancel what runs and disconnect. Idempotent."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        **options: Unpack[Options],
    ) -> Generation:
        """Continue a prompt, as Engine.generate does."""
        generate = ask(prompt, params, f"{self._prefix}-{next(self._numbers)}", **options)
        return Generation(lambda: self._submit(generate))

    async def complete(
        self, prompt: Prompt, params: SamplingParams | None = None, **options: Unpack[Options]
    ) -> Completion:
        """Continue a prompt and return all of it."""
        return await self.generate(prompt, params, **options).complete()

    async def hello(self) -> ServerHello:
        """What the gateway says of itself: model, context, vocabulary, versions."""
        return await (await self._connected()).hello(self._timeout)

    async def stats(self) -> Stats:
        """How busy the engine is."""
        connection = await self._connected()
        await connection.hello(self._timeout)
        return await connection.stats()

    async def ping(self) -> float:
        """Seconds until the gateway answered."""
        connection = await self._connected()
        await connection.hello(self._timeout)
        begin = time.perf_counter()
        await connection.ping()
        return time.perf_counter() - begin

    async def _submit(self, generate: Generate) -> RemoteStream:
        connection = await self._connected()
        await connection.hello(self._timeout)
        return await connection.open(generate)

    async def _connected(self) -> Connection:
        # Who is cancelled hears of that, and not of a client that is closed for the same reason.
        await checkpoint_if_cancelled()
        if self._connection is None:
            if self._closed:
                raise EngineClosed("the client was closed; start it again to use it")
            raise EngineEnded("the client has not started; use `async with` or call start()")
        return self._connection

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None and not connection.over:
            warnings.warn(
                "a Client was dropped without close(); use `async with`",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
            connection.abandon()
