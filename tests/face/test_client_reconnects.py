"""A Client whose connection breaks: its requests go on on the next one, or end by name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from optimist.client import Client
from optimist.messages.errors import ConfigError, RequestFailed
from optimist.messages.params import SamplingParams
from optimist.messages.requests import Admit
from optimist.testing.byte_tokenizer import EOS

pytestmark = pytest.mark.anyio

SAID = "".join(f"{number} " for number in range(400))
LONG = SamplingParams(max_tokens=100_000)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


def counting(_: Admit) -> list[int]:
    return [*SAID.encode(), EOS]


class Cable:
    """Hands bytes on between a client and a gateway, until it is cut; then it takes new connections."""

    def __init__(self, target: str) -> None:
        self.endpoint = ""
        self.cuts = 0
        self.down = False
        self._port = urlsplit(target).port
        self._ends: list[ByteStream] = []

    async def cut(self) -> None:
        """Break every connection there is."""
        self.cuts += 1
        ends, self._ends = self._ends, []
        for end in ends:
            await anyio.aclose_forcefully(end)

    async def serve(self, near: ByteStream) -> None:
        async with near:
            if self.down:
                return
            async with await anyio.connect_tcp("127.0.0.1", self._port or 0) as far:
                self._ends += [near, far]
                async with anyio.create_task_group() as group:
                    group.start_soon(_pass, near, far)
                    await _pass(far, near)
                    group.cancel_scope.cancel()


async def _pass(one: ByteStream, other: ByteStream) -> None:
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        while True:
            await other.send(await one.receive())


@asynccontextmanager
async def cable(target: str) -> AsyncIterator[Cable]:
    made = Cable(target)
    (listener,) = (await anyio.create_tcp_listener(local_host="127.0.0.1")).listeners
    made.endpoint = f"tcp://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"

    async def listen() -> None:
        with suppress(anyio.ClosedResourceError):
            await listener.serve(made.serve, group)

    async with listener, anyio.create_task_group() as group:
        group.start_soon(listen)
        yield made
        # A task that is cancelled while asyncio takes a connection for it would leave that one open.
        await listener.aclose()
        group.cancel_scope.cancel()


@asynccontextmanager
async def connected(serve: Any, **options: Any) -> AsyncIterator[tuple[Any, Cable, Client]]:
    """A gateway, a cable to it, and a client at the other end."""
    async with (
        serve(counting, endpoint="tcp://127.0.0.1:*") as served,
        cable(served.endpoint) as line,
        Client(line.endpoint, **options) as client,
    ):
        with anyio.fail_after(60):
            yield served.engine, line, client


async def test_a_stream_goes_on_on_the_next_connection(serve: Any) -> None:
    async with connected(serve) as (engine, line, client):
        chunks = [await (stream := client.generate("hi", LONG)).__anext__()]
        engine.scheduler.paused = True
        await line.cut()
        # Another request is answered on the new connection, and sets the scheduler going again.
        other = client.generate("hi", LONG)
        async with anyio.create_task_group() as group:
            group.start_soon(_resumed_when_admitted, engine)
            assert (await other.complete()).text == SAID
        chunks += [chunk async for chunk in stream]
        assert [t for chunk in chunks for t in chunk.token_ids] == [*SAID.encode(), EOS]
        assert "".join(chunk.text for chunk in chunks) == SAID
        assert chunks[-1].finish_reason == "stop" and line.cuts == 1


async def _resumed_when_admitted(engine: Any) -> None:
    while len(engine.scheduler.requests) < 2:
        await anyio.sleep(0.005)
    engine.scheduler.paused = False
    for request in engine.scheduler.requests:
        engine.gateway._outbox.cancel(10**9 + request, None)  # noqa: SLF001 - wakes the scheduler


async def test_no_token_is_lost_or_doubled_however_often_it_breaks(serve: Any) -> None:
    async with connected(serve) as (_, line, client):
        tokens: list[int] = []
        async for chunk in client.generate("hi", LONG):
            assert chunk.index == len(tokens)
            tokens += chunk.token_ids
            if line.cuts < 3:
                await line.cut()
        assert tokens == [*SAID.encode(), EOS] and line.cuts >= 1


@pytest.mark.parametrize("cut_first", [True, False])
async def test_what_is_left_then_is_cancelled_on_the_next_connection(
    serve: Any, cut_first: bool
) -> None:
    async with connected(serve) as (engine, line, client):
        engine.scheduler.paused = True
        async with anyio.create_task_group() as group:
            group.start_soon(client.complete, "hi", LONG)
            while not engine.scheduler.requests:
                await anyio.sleep(0.005)
            line.down = True
            if cut_first:
                await line.cut()
            group.cancel_scope.cancel()
        await line.cut()
        line.down = False
        while engine.gateway.live:
            await anyio.sleep(0.01)


async def test_a_connection_that_does_not_come_back_fails_what_waits_for_it(serve: Any) -> None:
    async with connected(serve, resume_within=0.2) as (engine, line, client):
        engine.scheduler.paused = True
        stream = client.generate("hi", LONG)
        line.down = True
        async with anyio.create_task_group() as group:
            group.start_soon(_cut_when_admitted, engine, line)
            with pytest.raises(RequestFailed, match=r"not back within 0\.2 s"):
                await stream.__anext__()


async def _cut_when_admitted(engine: Any, line: Cable) -> None:
    while not engine.scheduler.requests:
        await anyio.sleep(0.005)
    await line.cut()


async def test_who_does_not_want_to_wait_is_told_at_once(serve: Any) -> None:
    async with connected(serve, resume_within=0) as (engine, line, client):
        engine.scheduler.paused = True
        stream = client.generate("hi", LONG)
        async with anyio.create_task_group() as group:
            group.start_soon(_cut_when_admitted, engine, line)
            with pytest.raises(RequestFailed, match="connection was lost"):
                await stream.__anext__()


def test_a_negative_patience_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"resume_within: expected seconds >= 0, got -1"):
        Client("ipc:///tmp/none.sock", resume_within=-1)
