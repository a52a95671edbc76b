"""The gateway's side of the client protocol, spoken to in raw frames."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest
from waiting import until

from optimist import zmq_peer
from optimist.messages.requests import Admit
from optimist.testing.byte_tokenizer import EOS
from optimist.testing.scripted_engine import ScriptedEngine
from optimist.transport.dealer import Dealer
from optimist.transport.links import Links

pytestmark = pytest.mark.anyio

HELLO = {"type": "client_hello", "version": 1}


def hello(_: Admit) -> list[int]:
    return [*b"hello", EOS]


def endless(_: Admit) -> list[int]:
    return list(b"x" * 100_000)


class Raw:
    """Sends and receives plain maps, or bytes as they are."""

    def __init__(self, dealer: Dealer) -> None:
        self._dealer = dealer

    def send(self, message: Any) -> None:
        frame = message if isinstance(message, bytes) else msgspec.msgpack.encode(message)
        assert self._dealer.send(frame)

    async def receive(self) -> dict[str, Any]:
        """The next message but those with which the gateway feels for a silent client."""
        message: dict[str, Any] = {"type": "pong", "nonce": 0}
        with anyio.fail_after(60):
            while message == {"type": "pong", "nonce": 0}:
                message = msgspec.msgpack.decode(await self._dealer.receive())
        return message

    async def ask(self, message: Any) -> dict[str, Any]:
        self.send(message)
        return await self.receive()

    async def read(self, request: str) -> list[dict[str, Any]]:
        """Everything of one request up to its end."""
        messages = [await self.receive()]
        while messages[-1]["type"] not in ("finished", "failed"):
            messages.append(await self.receive())
        assert {message["request"] for message in messages} == {request}
        return messages


@asynccontextmanager
async def connect(endpoint: str, *, greet: bool = True, **options: Any) -> AsyncIterator[Raw]:
    with Links() as links:
        dealer = Dealer(links, endpoint, **options)
        await dealer.connected()
        raw = Raw(dealer)
        if greet:
            assert (await raw.ask(HELLO))["type"] == "server_hello"
        yield raw


def generate(request: str = "a", **fields: Any) -> dict[str, Any]:
    return {"type": "generate", "request": request, "prompt": "hi", **fields}


async def free(engine: ScriptedEngine) -> None:
    """Wait until nothing runs any more."""
    await until(lambda: not (engine.scheduler.requests or engine.gateway.live))


async def test_hello_comes_first(serve: Any) -> None:
    async with serve(hello) as served, connect(served.endpoint, greet=False) as raw:
        answer = await raw.ask(generate())
        assert (answer["type"], answer["request"]) == ("failed", "a")
        assert "client_hello first" in answer["problem"]["message"]
        assert (await raw.ask(HELLO))["versions"] == [1]
        raw.send(generate())
        assert (await raw.read("a"))[-1]["finish_reason"] == "stop"


async def test_another_version_is_refused_with_both_numbers(serve: Any) -> None:
    async with serve(hello) as served, connect(served.endpoint, greet=False) as raw:
        answer = await raw.ask({"type": "client_hello", "version": 2})
        assert answer["problem"]["message"] == "version: expected 1, got 2"
        assert answer["problem"]["field"] == "version"


async def test_tokens_and_text_arrive_in_order_and_end_with_finished(serve: Any) -> None:
    async with serve(hello) as served, connect(served.endpoint) as raw:
        raw.send(generate(params={"seed": 3}))
        *deltas, last = await raw.read("a")
        assert "".join(delta["text"] for delta in deltas) + last["text"] == "hello"
        assert [token for delta in deltas for token in delta["token_ids"]] == [*b"hello", EOS]
        assert last["usage"] == {"prompt_tokens": 2, "completion_tokens": 6, "cached_tokens": 0}
        assert last["seed"] == 3


async def test_a_name_in_use_is_refused_without_disturbing_its_owner(serve: Any) -> None:
    async with serve(hello) as served, connect(served.endpoint) as raw:
        served.engine.scheduler.paused = True
        raw.send(generate())
        answer = await raw.ask(generate())
        assert (answer["type"], answer["request"]) == ("failed", "")
        assert answer["problem"]["field"] == "request" and "'a'" in answer["problem"]["message"]
        served.engine.scheduler.paused = False
        raw.send(generate("b"))
        messages = [await raw.receive()]
        while [m["type"] for m in messages].count("finished") < 2:
            messages.append(await raw.receive())
        for name in ("a", "b"):
            mine = [message for message in messages if message["request"] == name]
            assert "".join(message["text"] for message in mine) == "hello"


async def test_two_clients_may_use_the_same_name(serve: Any) -> None:
    async with (
        serve(hello) as served,
        connect(served.endpoint) as one,
        connect(served.endpoint) as two,
    ):
        one.send(generate())
        two.send(generate())
        assert (await one.read("a"))[-1]["type"] == "finished"
        assert (await two.read("a"))[-1]["type"] == "finished"


async def test_a_name_can_be_used_again_after_its_end(serve: Any) -> None:
    async with serve(hello) as served, connect(served.endpoint) as raw:
        for _ in range(2):
            raw.send(generate())
            assert (await raw.read("a"))[-1]["type"] == "finished"


async def test_cancel_is_answered_with_what_was_generated(serve: Any) -> None:
    async with serve(endless) as served, connect(served.endpoint) as raw:
        raw.send(generate(params={"max_tokens": 100_000}))
        await raw.receive()
        raw.send({"type": "cancel_request", "request": "a"})
        raw.send({"type": "cancel_request", "request": "unknown"})
        last = (await raw.read("a"))[-1]
        assert last["finish_reason"] == "cancelled"
        await free(served.engine)


async def test_cancel_right_behind_a_chat_ends_it_too(serve: Any) -> None:
    async with serve(endless) as served, connect(served.endpoint) as raw:
        served.engine.scheduler.paused = True
        raw.send(generate(prompt=None, messages=[{"role": "user", "content": "hi"}]))
        raw.send({"type": "cancel_request", "request": "a"})
        (last,) = await raw.read("a")
        assert (last["finish_reason"], last["usage"]["completion_tokens"]) == ("cancelled", 0)


async def test_stats_ping_and_resume_are_answered(serve: Any) -> None:
    async with serve(hello) as served, connect(served.endpoint) as raw:
        assert await raw.ask({"type": "ping", "nonce": 9}) == {"type": "pong", "nonce": 9}
        assert (await raw.ask({"type": "stats_request"}))["running"] == 0
        answer = await raw.ask({"type": "resume", "request": "a", "resume_key": "k"})
        assert (answer["type"], answer["request"]) == ("failed", "a")
        assert answer["problem"]["code"] == "request_failed"


async def test_the_tokens_only_route_has_no_text(serve: Any) -> None:
    async with serve(hello) as served, connect(served.endpoint) as raw:
        raw.send(generate(prompt=None, prompt_ids=[1, 2], want_text=False))
        *deltas, last = await raw.read("a")
        assert {message["text"] for message in (*deltas, last)} == {""}
        refused = await raw.ask(generate("b", want_text=False, params={"stop": ["END"]}))
        assert (refused["request"], refused["problem"]["field"]) == ("b", "stop")


@pytest.mark.parametrize(
    ("message", "request_name", "field"),
    [
        (b"", "", None),
        (b"\xdd\xff\xff\xff\xff", "", None),
        (b"\xdb\xff\xff\xff\xff", "", None),
        (b"GET / HTTP/1.1\r\n\r\n", "", None),
        (pickle.dumps({"type": "ping"}), "", None),
        (b"\x91" * 100, "", None),
        ({"type": "dance", "request": "a"}, "a", "type"),
        ({"type": "pong", "nonce": 1}, "", "type"),
        ({"type": "generate"}, "", "request"),
        (generate(params={"logit_bias": {4: 1, 5: "x"}}), "a", "logit_bias.5"),
        (generate(params={"logit_bias": {"5": 1}}), "a", "logit_bias"),
        (generate(colour="red"), "a", "colour"),
        (generate(params={"temprature": 0}), "a", "temprature"),
        (generate(params={"temperature": "hot"}), "a", "temperature"),
        (generate(params={"temperature": -1.0}), "a", "temperature"),
        (generate(prompt=None, prompt_ids=[1, 1.5]), "a", "prompt_ids[1]"),
        (generate(prompt=None, prompt_ids=[2**63]), "a", "prompt_ids[0]"),
        (generate(""), "", "request"),
        (generate("n" * 129), "", "request"),
        (generate(prompt=""), "a", "prompt"),
    ],
)
async def test_a_bad_message_is_answered_and_the_connection_goes_on(
    serve: Any, message: Any, request_name: str, field: str | None
) -> None:
    async with serve(hello) as served, connect(served.endpoint) as raw:
        answer = await raw.ask(message)
        assert (answer["type"], answer["request"]) == ("failed", request_name)
        assert answer["problem"]["code"] == "invalid_request"
        assert answer["problem"]["field"] == field
        raw.send(generate("after"))
        assert (await raw.read("after"))[-1]["finish_reason"] == "stop"


async def test_a_flood_of_messages_is_refused_for_a_while(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long the flood takes, no more is allowed meanwhile.
    monkeypatch.setattr(zmq_peer, "RATE", 0.0)
    async with serve(hello) as served, connect(served.endpoint, capacity=10_000) as raw:
        served.engine.scheduler.paused = True
        for _ in range(2500):
            raw.send({"type": "cancel_request", "request": "unknown"})
        answer = await raw.receive()
        assert (answer["type"], answer["problem"]["code"]) == ("failed", "overloaded")


async def test_a_client_that_vanishes_has_its_requests_cancelled(serve: Any) -> None:
    async with serve(endless) as served:
        served.engine.scheduler.paused = True
        async with connect(served.endpoint) as raw:
            raw.send(generate(params={"max_tokens": 100_000, "n": 2}))
            with anyio.fail_after(60):
                while len(served.engine.scheduler.requests) < 2:
                    await anyio.sleep(0.01)
        await free(served.engine)


async def test_a_client_that_does_not_read_pauses_its_own_rows_only(serve: Any) -> None:
    async with (
        serve(endless, credit=16) as served,
        connect(served.endpoint, capacity=1) as deaf,
        connect(served.endpoint) as raw,
    ):
        deaf.send(generate(params={"max_tokens": 100_000}))
        granted, quiet = 0, 0
        with anyio.fail_after(60):
            while quiet < 10:
                await anyio.sleep(0.05)
                before, granted = granted, sum(g.credit for g in served.engine.scheduler.grants)
                quiet = quiet + 1 if granted == before > 0 else 0
        assert granted < 90_000
        raw.send(generate("b", params={"max_tokens": 50}))
        last = (await raw.read("b"))[-1]
        assert last["usage"]["completion_tokens"] == 50
        chunks = [await deaf.receive() for _ in range(50)]
        assert [chunk["index"] for chunk in chunks] == sorted(c["index"] for c in chunks)


async def test_the_end_of_the_engine_is_told_to_those_who_wait(serve: Any) -> None:
    async with serve(endless) as served, connect(served.endpoint) as raw:
        served.engine.scheduler.paused = True
        raw.send(generate())
        with anyio.fail_after(60):
            while not served.engine.scheduler.requests:
                await anyio.sleep(0.01)
        await served.engine.close()
        (last,) = await raw.read("a")
        assert last["problem"]["code"] == "engine_closed"
