"""The HTTP face in front of real actors: what only they can refuse, and what a client's leaving does."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from waiting import until

from optimist.engine_options import engine_config
from optimist.http.app import create_app
from optimist.http.gateway_service import GatewayService
from optimist.http.server import listen, serve_http, url
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.troupe import Troupe, bring_up

pytestmark = pytest.mark.anyio
COMPLETION, CHAT = "/v1/completions", "/v1/chat/completions"
CONTEXT = 64


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def served(
    placement: str = "inline", **options: Any
) -> AsyncIterator[tuple[Troupe, httpx.AsyncClient]]:
    """Real actors on the integer model, and a client of their HTTP face over a real connection."""
    executor = {
        "executor": "optimist.testing.integer_model:IntegerExecutor",
        "executor_options": {"vocab_size": 272, "sleep_ms": 1},
    }
    sizes = {"kv_blocks": 16, "max_slots": 2, "max_model_len": CONTEXT}
    config = engine_config("toy", placement, executor | sizes | options)
    async with bring_up(config, ByteTokenizer()) as troupe, anyio.create_task_group() as tasks:
        assert troupe.gateway is not None
        gateway, listener = troupe.gateway, listen("127.0.0.1", 0)
        app = create_app(GatewayService(lambda: gateway))
        started = anyio.Event()

        async def serve() -> None:
            await serve_http(app, listener, started=started.set, grace=1)

        tasks.start_soon(serve)
        await started.wait()
        async with httpx.AsyncClient(base_url=url(listener), timeout=60) as client:
            yield troupe, client
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("route", "body", "param"),
    [
        (COMPLETION, {"prompt": ""}, "prompt"),
        (COMPLETION, {"prompt": [""]}, "prompt"),
        (COMPLETION, {"prompt": [[]]}, "prompt"),
        (COMPLETION, {"prompt": [-1]}, "prompt[0]"),
        (COMPLETION, {"prompt": [1, 272]}, "prompt[1]"),
        (COMPLETION, {"prompt": [2**31]}, "prompt[0]"),
        (COMPLETION, {"prompt": [2**63]}, "prompt[0]"),
        (COMPLETION, {"prompt": [10**30]}, "prompt[0]"),
        (COMPLETION, {"prompt": "x", "logit_bias": {"999999": 5}}, "logit_bias.999999"),
        (COMPLETION, {"prompt": "x" * CONTEXT}, "prompt"),
        (CHAT, {"messages": [{"role": "user", "content": "x" * CONTEXT}]}, "messages"),
    ],
)
async def test_a_request_that_no_engine_could_serve_is_a_400_and_harms_nobody(
    route: str, body: dict[str, Any], param: str
) -> None:
    async with served() as (_, client):
        answer = await client.post(route, json=body)
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, param), error
        fine = await client.post(
            COMPLETION, json={"prompt": "x", "max_tokens": 2, "ignore_eos": True}
        )
        assert fine.json()["usage"]["completion_tokens"] == 2


async def test_a_prompt_that_is_too_long_is_told_both_figures() -> None:
    async with served() as (_, client):
        answer = await client.post(COMPLETION, json={"prompt": "x" * (CONTEXT + 9)})
        message = answer.json()["error"]["message"]
        assert str(CONTEXT) in message
        assert str(CONTEXT + 9) in message
        for length in (CONTEXT - 2, CONTEXT - 1):
            body = {"prompt": "x" * length, "max_tokens": 1}
            assert (await client.post(COMPLETION, json=body)).status_code == 200


@pytest.mark.parametrize("max_tokens", [CONTEXT, 10**30])
async def test_more_tokens_than_the_context_has_room_for_are_as_many_as_it_has(
    max_tokens: int,
) -> None:
    body = {"prompt": "x" * 60, "max_tokens": max_tokens, "ignore_eos": True}
    async with served() as (_, client):
        answer = (await client.post(COMPLETION, json=body)).json()
        assert answer["usage"]["total_tokens"] == CONTEXT
        assert answer["choices"][0]["finish_reason"] == "length"


async def test_usage_and_text_are_the_same_streamed_and_at_once() -> None:
    body = {"prompt": "abcdef", "max_tokens": 9, "temperature": 0, "ignore_eos": True}
    async with served() as (_, client):
        whole = (await client.post(COMPLETION, json=body)).json()
        streamed, usage = "", None
        options = {"stream": True, "stream_options": {"include_usage": True}}
        async with client.stream("POST", COMPLETION, json=body | options) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    chunk = httpx.Response(200, content=line.removeprefix("data: ")).json()
                    streamed += "".join(choice["text"] for choice in chunk["choices"])
                    usage = chunk["usage"] or usage
        assert streamed == whole["choices"][0]["text"]
        assert usage is not None
        for field in ("prompt_tokens", "completion_tokens", "total_tokens"):
            assert usage[field] == whole["usage"][field]


async def test_choices_differ_and_come_again_with_the_seed() -> None:
    body = {"prompt": "abc", "n": 3, "temperature": 1, "seed": 7, "max_tokens": 8}
    async with served(max_slots=4, kv_blocks=32) as (_, client):
        first = (await client.post(COMPLETION, json=body)).json()
        again = (await client.post(COMPLETION, json=body)).json()
    texts = [choice["text"] for choice in first["choices"]]
    assert len(set(texts)) == 3
    assert texts == [choice["text"] for choice in again["choices"]]
    assert first["usage"]["prompt_tokens"] == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_frees_all_its_slots(stream: bool) -> None:
    body = {"prompt": "abc", "n": 4, "ignore_eos": True, "max_tokens": 60, "stream": stream}
    async with served(executor_options={"vocab_size": 272, "sleep_ms": 50}) as (troupe, client):
        gateway = troupe.gateway
        assert gateway is not None
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                await client.post(COMPLETION, json=body)

            tasks.start_soon(ask)
            await until(lambda: gateway.live == 4)
            tasks.cancel_scope.cancel()
        await until(lambda: gateway.live == 0)
        assert gateway.counts.cancelled == 4
        assert (await client.get("/health")).status_code == 200


async def test_a_full_engine_is_a_429_that_says_when_to_come_back() -> None:
    body = {"prompt": "abc", "ignore_eos": True, "max_tokens": 60}
    slow = {"vocab_size": 272, "sleep_ms": 200}
    async with served(max_requests=1, executor_options=slow) as (troupe, client):
        gateway = troupe.gateway
        assert gateway is not None
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                await client.post(COMPLETION, json=body)

            tasks.start_soon(ask)
            await until(lambda: gateway.live == 1)
            answer = await client.post(COMPLETION, json=body)
            assert answer.status_code == 429
            assert int(answer.headers["retry-after"]) >= 1
            tasks.cancel_scope.cancel()


async def test_a_deadline_that_passes_is_a_504() -> None:
    slow = {"vocab_size": 272, "sleep_ms": 20}
    body = {"prompt": "abc", "ignore_eos": True, "max_tokens": 60, "deadline_ms": 60}
    async with served(executor_options=slow) as (_, client):
        answer = await client.post(COMPLETION, json=body)
        assert answer.status_code == 504
        assert answer.json()["error"]["code"] == "deadline_exceeded"


async def test_health_is_red_from_a_death_until_the_next_life() -> None:
    async with served("embedded") as (troupe, client):
        assert (await client.get("/health")).status_code == 200
        seen: set[int] = set()
        os.kill(troupe.pids["worker+builder+scheduler"], signal.SIGKILL)
        with anyio.fail_after(60):
            while 503 not in seen or (await client.get("/health")).status_code != 200:
                seen.add((await client.get("/health")).status_code)
        answer = await client.post(COMPLETION, json={"prompt": "x", "max_tokens": 2})
        assert answer.status_code == 200


async def test_a_drained_engine_is_not_ready_and_finishes_what_it_has() -> None:
    async with served() as (troupe, client):
        assert (await client.get("/ready")).status_code == 200
        troupe.drain()
        assert troupe.gateway is not None
        await until(lambda: not troupe.gateway.health().accepting)  # type: ignore[union-attr]
        assert (await client.get("/ready")).status_code == 503
        assert (await client.get("/health")).status_code == 200
        answer = await client.post(COMPLETION, json={"prompt": "x"})
        assert answer.status_code == 503
