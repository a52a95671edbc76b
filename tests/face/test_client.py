from __future__ import annotations

import gc
from contextlib import aclosing
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from waiting import timed_out, until

from optimist.client import Client
from optimist.generation import Generation
from optimist.messages.client import ServerHello
from optimist.messages.codec import encode
from optimist.messages.errors import (
    ConfigError,
    EngineClosed,
    EngineEnded,
    InvalidRequest,
    RequestFailed,
    TooLarge,
)
from optimist.messages.params import SamplingParams
from optimist.messages.requests import Admit
from optimist.testing.byte_tokenizer import EOS
from optimist.testing.drain import drained
from optimist.testing.scripted_engine import ScriptedEngine
from optimist.transport.links import Links
from optimist.transport.router import Router

pytestmark = pytest.mark.anyio

LONG = SamplingParams(max_tokens=100_000)


def hello(_: Admit) -> list[int]:
    return [*b"hello", EOS]


def endless(_: Admit) -> list[int]:
    return list(b"x" * 100_000)


async def free(engine: ScriptedEngine) -> None:
    """Wait until nothing runs any more."""
    await until(lambda: not (engine.scheduler.requests or engine.gateway.live))


async def test_a_client_gets_what_the_engine_gives(serve: Any) -> None:
    async with serve(hello) as served, Client(served.endpoint) as client:
        params = SamplingParams(seed=7, n=2)
        assert await client.complete("hi", params) == await served.engine.complete("hi", params)
        chunks = [chunk async for chunk in client.generate("hi")]
        assert "".join(chunk.text for chunk in chunks) == "hello"
        assert [chunk.finish_reason for chunk in chunks].count("stop") == 1


async def test_the_prompt_comes_with_its_log_probabilities(serve: Any) -> None:
    params = SamplingParams(max_tokens=2, seed=1, prompt_logprobs=1, n=2)
    async with serve(hello) as served, Client(served.endpoint) as client:
        told = await client.complete("hey", params)
        assert told == await served.engine.complete("hey", params)
        alone = await client.complete("hey", SamplingParams(max_tokens=0, prompt_logprobs=1))
        tokens = alone.choices[0].prompt_logprobs or ()
        for choice in (*told.choices, *alone.choices):
            assert choice.prompt_logprobs == tokens
            assert [(t.token, t.logprob) for t in tokens] == [("h", None), ("e", 0.0), ("y", 0.0)]
            assert [len(t.top) for t in tokens] == [0, 1, 1]
        assert (alone.token_ids, alone.finish_reason) == ((), "length")
        assert (await client.complete("h", params)).choices[1].prompt_logprobs == tokens[:1]


@pytest.mark.parametrize("prompt", ["hi", [104, 105], [{"role": "user", "content": "hi"}]])
async def test_a_prompt_is_a_text_or_ids_or_a_chat(serve: Any, prompt: Any) -> None:
    async with serve(hello) as served, Client(served.endpoint) as client:
        assert (await client.complete(prompt)).text == "hello"


async def test_over_tcp_with_a_port_that_was_free(serve: Any) -> None:
    tcp = "tcp://127.0.0.1:*"
    async with serve(hello, endpoint=tcp) as served, Client(served.endpoint) as client:
        assert (await client.complete("hi", want_text=False)).token_ids == (*b"hello", EOS)


@pytest.mark.parametrize("endpoint", ["foo", "tcp://192.0.2.1:5555"])
async def test_a_bad_endpoint_is_refused_and_leaves_nothing_open(endpoint: str) -> None:
    with drained(), pytest.raises(ConfigError, match=f"{endpoint}: expected"):
        await Client(endpoint).start()


async def test_the_gateway_introduces_itself_and_answers_questions(serve: Any) -> None:
    async with serve(hello, model_name="toy") as served, Client(served.endpoint) as client:
        said = await client.hello()
        assert (said.version, said.model, said.vocab_size) == (1, "toy", 272)
        assert await client.ping() >= 0
        assert (await client.stats()).healthy


async def test_refusals_keep_their_type_and_field(serve: Any) -> None:
    async with serve(hello) as served, Client(served.endpoint) as client:
        with pytest.raises(InvalidRequest) as refused:
            await client.complete([272])
        assert refused.value.problem.field == "prompt_ids[0]"
        served.engine.gateway._intake.max_model_len = 4  # noqa: SLF001
        with pytest.raises(TooLarge, match="context has 4, got 5"):
            await client.complete("hello")


async def test_many_requests_share_a_connection(serve: Any) -> None:
    async with serve(hello) as served, Client(served.endpoint) as client:
        texts: list[str] = []

        async def one() -> None:
            texts.append((await client.complete("hi")).text)

        async with anyio.create_task_group() as group:
            for _ in range(30):
                group.start_soon(one)
        assert texts == ["hello"] * 30


async def test_leaving_in_any_way_frees_the_slot(serve: Any) -> None:
    async with serve(endless) as served, Client(served.endpoint) as client:
        async for _ in client.generate("hi", LONG):
            break
        await free(served.engine)
        async with aclosing(client.generate("hi", LONG)) as chunks:
            await chunks.__anext__()
        await free(served.engine)
        chunks = client.generate("hi", LONG)
        await chunks.__anext__()
        cycle: list[Any] = [chunks]
        cycle.append(cycle)
        del chunks, cycle
        gc.collect()
        await free(served.engine)


async def test_a_timeout_around_one_chunk_frees_the_slot(serve: Any) -> None:
    async with serve(endless) as served, Client(served.endpoint) as client:
        served.engine.scheduler.paused = True
        scheduler = served.engine.scheduler
        await timed_out(lambda: client.complete("hi"), lambda: scheduler.requests)
        assert len(scheduler.admits) == 1
        await free(served.engine)


async def test_closing_the_client_frees_its_slots(serve: Any) -> None:
    async with serve(endless) as served:
        client = Client(served.endpoint)
        await client.start()
        chunks = client.generate("hi", LONG)
        await chunks.__anext__()
        await client.close()
        await client.close()
        with pytest.raises(EngineClosed):
            async for _ in chunks:
                pass
        with pytest.raises(EngineClosed):
            await client.complete("hi")
        await free(served.engine)


async def test_a_reader_that_never_reads_delays_no_other(serve: Any) -> None:
    async with serve(lambda _: [*b"x" * 50, EOS]) as served, Client(served.endpoint) as client:
        never = client.generate("never read")
        await never.__anext__()
        for _ in range(3):
            assert (await client.complete("quick")).text == "x" * 50
        assert sum([len(chunk.token_ids) async for chunk in never]) <= 50


async def test_before_the_start_it_says_how_to_start() -> None:
    with pytest.raises(EngineEnded, match="async with"):
        await Client("ipc:///tmp/none.sock").complete("hi")


async def test_nobody_there_is_said_within_the_timeout(tmp_path: Any) -> None:
    with pytest.raises(EngineEnded, match=r"expected a hello within 0\.05 s"):
        await Client(f"ipc://{tmp_path}/none.sock", timeout=0.05).start()


async def test_a_lost_connection_fails_what_ran_and_the_next_request_works(serve: Any) -> None:
    async with serve(endless) as served:
        client = Client(served.endpoint)
        await client.start()
        chunks = client.generate("hi", LONG)
        await chunks.__anext__()
    with pytest.raises(EngineEnded, match="has ended"):
        async for _ in chunks:
            pass
    async with serve(hello):
        assert (await client.complete("hi")).text == "hello"
        await client.close()


async def test_a_connection_that_is_cut_fails_what_ran(tmp_path: Any) -> None:
    """The gateway's process dies: nobody says farewell."""
    tmp_path.chmod(0o700)
    endpoint = f"ipc://{tmp_path}/gateway.sock"
    hello = ServerHello(
        version=1, versions=(1,), server="s", model="m", max_model_len=9, vocab_size=9
    )
    client = Client(endpoint, resume_within=0.1)
    async with anyio.create_task_group() as group:
        with Links() as links:
            router = Router(links, endpoint)
            group.start_soon(client.start)
            peer = (await router.receive()).identity
            assert router.send(peer, encode(hello))
            await client_hello(client)
            chunks = client.generate("hi")
            group.start_soon(fails, chunks)
            await router.receive()
    await client.close()


async def client_hello(client: Client) -> ServerHello:
    with anyio.fail_after(20):
        while client._connection is None:  # noqa: SLF001 - it starts in another task
            await anyio.lowlevel.checkpoint()
        return await client.hello()


async def fails(chunks: Generation) -> None:
    with pytest.raises(RequestFailed, match="connection was lost"):
        await chunks.__anext__()


async def test_a_request_longer_than_a_frame_is_refused_here(serve: Any) -> None:
    async with serve(hello) as served, Client(served.endpoint) as client:
        with pytest.raises(InvalidRequest, match="at most 4194304 bytes"):
            await client.complete("é" * 3_000_000)
        assert (await client.complete("hi")).text == "hello"


async def test_an_unclosed_client_complains_and_disconnects(serve: Any) -> None:
    async with serve(hello) as served:
        client = Client(served.endpoint)
        await client.start()
        connection = client._connection  # noqa: SLF001 - what the dropped client leaves behind
        assert connection is not None
        with pytest.warns(ResourceWarning, match="without close"):
            del client
        await until(lambda: connection.over)
