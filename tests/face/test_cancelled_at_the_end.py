"""Who is cancelled hears of the cancellation, although the engine or the client ends at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from optimist.client import Client
from optimist.connection import Waiting
from optimist.engine import Engine
from optimist.life import Life
from optimist.messages.client import Generate
from optimist.messages.errors import EngineClosed, EngineEnded
from optimist.messages.requests import Admit
from optimist.testing.byte_tokenizer import EOS
from optimist.testing.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.anyio


def hello(_: Admit) -> list[int]:
    return [*b"hello", EOS]


@asynccontextmanager
async def starting(how: Callable[[], Awaitable[None]]) -> AsyncIterator[Any]:
    """What starts like this."""
    await how()
    yield


async def hears_of_it(asking: Callable[[], Awaitable[Any]]) -> None:
    """Who is cancelled already asks something."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        await asking()
    assert scope.cancelled_caught


async def test_who_asks_an_engine_that_was_closed() -> None:
    engine = ScriptedEngine(hello)
    async with engine:
        gateway = engine.gateway
    await hears_of_it(lambda: engine.complete("hi"))
    await hears_of_it(lambda: gateway.submit(Generate(request="", prompt="hi")))
    with pytest.raises(EngineClosed):
        await engine.complete("hi")


async def test_who_asks_a_client_that_was_closed(serve: Any) -> None:
    async with serve(hello) as served, Client(served.endpoint) as client:
        await client.close()
        for asking in (client.hello, client.stats, client.ping, lambda: client.complete("hi")):
            await hears_of_it(asking)
        with pytest.raises(EngineClosed):
            await client.ping()


async def test_whose_prompt_is_ready_when_the_engine_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedEngine(hello) as engine:
        with anyio.CancelScope() as scope:

            async def encoded(generate: Generate) -> list[int]:
                scope.cancel()
                engine.gateway.end(EngineEnded("the engine has ended"))
                return [1]

            intake = engine.gateway._intake  # noqa: SLF001 - its thread is ready at no moment of ours
            monkeypatch.setattr(intake, "encode_aside", encoded)
            await engine.complete("hi")
        assert scope.cancelled_caught


async def at_one_moment(wait: Callable[[], Awaitable[Any]], end: Callable[[], object]) -> None:
    """The wait is ended, and whoever waits is cancelled before it has noticed."""
    async with anyio.create_task_group() as group:

        async def waits() -> None:
            await wait()

        group.start_soon(waits)
        await anyio.wait_all_tasks_blocked()
        end()
        group.cancel_scope.cancel()


async def test_who_waits_for_an_answer_of_a_connection_that_ends() -> None:
    waiting = Waiting()
    await at_one_moment(waiting.get, lambda: waiting.fail(EngineEnded("the connection has ended")))
    with pytest.raises(EngineEnded, match="the connection has ended"):
        await waiting.get()


async def test_who_waits_for_an_engine_that_ends_while_it_starts() -> None:
    life = Life(starting(anyio.sleep_forever))
    ended = life._started  # noqa: SLF001 - set when it runs, or has ended before
    await at_one_moment(life.started, ended.set)
    with pytest.raises(EngineEnded, match="ended while it started"):
        await life.started()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_start_whose_own_task_alone_is_cancelled_says_so() -> None:
    class Cancelled(Engine):
        def _bring_up(self) -> Any:
            return starting(ends)

    async def ends() -> None:
        raise asyncio.CancelledError

    with pytest.raises(EngineEnded, match=r"ended while it started because .* task was cancelled"):
        await Cancelled().start()
