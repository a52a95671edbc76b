"""A client that lost its connection goes on where it was, on another one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest

from optimist import zmq_request
from optimist.messages.requests import Admit
from optimist.testing.byte_tokenizer import EOS
from optimist.testing.scripted_engine import ScriptedEngine
from optimist.transport.dealer import Dealer
from optimist.transport.links import Links

pytestmark = pytest.mark.anyio

SAID = "".join(f"{number} " for number in range(400))
ASK: dict[str, Any] = {
    "type": "generate",
    "request": "a",
    "prompt": "hi",
    "resume_key": "k",
    "params": {"max_tokens": 100_000},
}
Told = list[dict[str, Any]]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


def counting(_: Admit) -> list[int]:
    return [*SAID.encode(), EOS]


class Line:
    """A connection that has been greeted."""

    def __init__(self, dealer: Dealer) -> None:
        self._dealer = dealer

    def send(self, **message: Any) -> None:
        assert self._dealer.send(msgspec.msgpack.encode(message))

    def resume(self, index: int, key: str = "k", name: str = "a") -> None:
        self.send(type="resume", request=name, resume_key=key, next_index=index)

    async def receive(self) -> dict[str, Any]:
        with anyio.fail_after(60):
            while True:
                message: dict[str, Any] = msgspec.msgpack.decode(await self._dealer.receive())
                if message["type"] != "pong":
                    return message

    async def tokens(self, least: int) -> Told:
        """Deltas until there are so many tokens, or more."""
        told: Told = []
        while sum(len(delta["token_ids"]) for delta in told) < least:
            told.append(await self.receive())
        return told

    async def rest(self) -> Told:
        """Everything up to the end."""
        told = [await self.receive()]
        while told[-1]["type"] not in ("finished", "failed"):
            told.append(await self.receive())
        return told


@asynccontextmanager
async def connect(endpoint: str) -> AsyncIterator[Line]:
    with Links() as links:
        dealer = Dealer(links, endpoint)
        await dealer.connected()
        line = Line(dealer)
        line.send(type="client_hello", version=1)
        assert (await line.receive())["type"] == "server_hello"
        yield line


def go_on(engine: ScriptedEngine) -> None:
    """Let its scheduler make tokens again, and wake it."""
    engine.scheduler.paused = False
    engine.gateway._outbox.cancel(10**9, None)  # noqa: SLF001 - of a request that is not there


def end(told: Told) -> int:
    return int(told[-1]["index"]) + len(told[-1]["token_ids"]) if told else 0


def whole(told: Told) -> None:
    """All of it, once and in order."""
    assert "".join(message["text"] for message in told) == SAID
    tokens = [token for message in told[:-1] for token in message["token_ids"]]
    assert tokens == [*SAID.encode(), EOS]
    starts = [message["index"] for message in told[:-1]]
    assert starts == sorted(set(starts))
    assert (told[-1]["type"], told[-1]["finish_reason"]) == ("finished", "stop")
    assert told[-1]["usage"]["completion_tokens"] == len(tokens)


@pytest.mark.parametrize("lost", [0, 1, 2])
async def test_another_connection_goes_on_from_any_delta_that_came(serve: Any, lost: int) -> None:
    async with serve(counting) as served:
        async with connect(served.endpoint) as line:
            line.send(**ASK)
            told = await line.tokens(3)
            told = told[: max(0, len(told) - lost)]
            # However late it is seen that the connection is lost, there is a rest.
            served.engine.scheduler.paused = True
        async with connect(served.endpoint) as line:
            assert served.engine.gateway.live == 1
            line.resume(end(told))
            go_on(served.engine)
            whole([*told, *await line.rest()])


async def test_it_goes_on_while_the_old_connection_still_stands(serve: Any) -> None:
    async with serve(counting) as served, connect(served.endpoint) as old:
        old.send(**ASK)
        told = await old.tokens(2)
        async with connect(served.endpoint) as new:
            new.resume(end(told))
            whole([*told, *await new.rest()])
            new.send(**ASK | {"request": "b", "resume_key": ""})
            whole(await new.rest())


async def test_an_end_that_was_lost_is_told_again(serve: Any) -> None:
    async with serve(counting) as served:
        async with connect(served.endpoint) as line:
            line.send(**ASK)
            told = await line.rest()
        async with connect(served.endpoint) as line:
            line.resume(end(told[:-1]))
            assert await line.rest() == told[-1:]
            line.resume(0)
            whole(await line.rest())


async def test_only_who_knows_name_key_and_place_goes_on(serve: Any) -> None:
    async with serve(counting) as served, connect(served.endpoint) as line:
        line.send(**ASK)
        whole(await line.rest())
        for index, key, name, code in (
            (0, "other", "a", "request_failed"),
            (0, "k", "b", "request_failed"),
            (10**6, "k", "a", "invalid_request"),
        ):
            line.resume(index, key, name)
            (answer,) = await line.rest()
            assert answer["problem"]["code"] == code
        for params in ({"n": 2}, {"prompt_logprobs": 0}):
            line.send(**ASK | {"params": params})
            (answer,) = await line.rest()
            assert answer["problem"]["field"] == "resume_key"


async def test_a_client_that_stays_away_is_not_waited_for(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zmq_request, "KEEP_SECONDS", 0.3)

    def endless(_: Admit) -> list[int]:
        return list(b"x" * 100_000)

    async with serve(endless) as served:
        engine: ScriptedEngine = served.engine
        async with connect(served.endpoint) as line:
            line.send(**ASK)
            await line.tokens(1)
        with anyio.fail_after(60):
            while engine.scheduler.requests or engine.gateway.live:
                await anyio.sleep(0.01)
        async with connect(served.endpoint) as line:
            line.resume(0)
            (answer,) = await line.rest()
            assert answer["problem"]["code"] == "request_failed"
