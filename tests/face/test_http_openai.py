"""The official openai client talks to a served app, as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import openai
import pytest
from scripted_service import ScriptedService
from waiting import until

from optimist.http.app import create_app
from optimist.http.server import listen, serve_http, url
from optimist.messages.errors import EngineBroken, InvalidRequest, Overloaded

pytestmark = pytest.mark.anyio
HELLO: Any = [{"role": "user", "content": "hello"}]


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
async def address(service: ScriptedService) -> AsyncIterator[str]:
    listener = listen("127.0.0.1", 0)
    started = anyio.Event()
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await serve_http(create_app(service), listener, started=started.set, grace=1)

        tasks.start_soon(serve)
        await started.wait()
        yield url(listener) + "/v1"
        tasks.cancel_scope.cancel()


@pytest.fixture
async def client(address: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=address, api_key="-", max_retries=0) as client:
        yield client


async def test_chat_at_once(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model="scripted", messages=HELLO)
    assert answer.choices[0].message.content == "Hello world!"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (4, 3)
    assert answer.usage.total_tokens == 7
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 2


async def test_chat_streamed_says_the_same_and_usage_comes_last_and_only_when_asked(
    client: openai.AsyncOpenAI,
) -> None:
    plain = [
        chunk
        async for chunk in await client.chat.completions.create(
            model="scripted", messages=HELLO, stream=True
        )
    ]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in plain) == "Hello world!"
    assert plain[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in plain] == [None, None, "length"]
    assert all(chunk.usage is None for chunk in plain)

    asked = [
        chunk
        async for chunk in await client.chat.completions.create(
            model="scripted", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
    ]
    assert len(asked) == len(plain) + 1
    assert all(chunk.usage is None for chunk in asked[:-1])
    assert asked[-1].choices == []
    assert asked[-1].usage is not None and asked[-1].usage.total_tokens == 7


async def test_two_choices_have_their_own_index_and_count_the_prompt_once(
    client: openai.AsyncOpenAI, service: ScriptedService
) -> None:
    answer = await client.completions.create(
        model="scripted", prompt="x", n=2, max_tokens=2, seed=3
    )
    assert [(one.index, one.text) for one in answer.choices] == [
        (0, "Hello world"),
        (1, "Hello1 world1"),
    ]
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (4, 4)
    assert (service.asked[0].params.n, service.asked[0].params.seed) == (2, 3)


async def test_several_prompts_are_several_requests(
    client: openai.AsyncOpenAI, service: ScriptedService
) -> None:
    answer = await client.completions.create(
        model="scripted", prompt=["a", "b"], n=2, max_tokens=1, echo=True
    )
    assert [one.text for one in answer.choices] == ["aHello", "aHello1", "bHello", "bHello1"]
    assert [generate.prompt for generate in service.asked] == ["a", "b"]
    assert len({generate.request for generate in service.asked}) == 2
    assert answer.usage is not None and answer.usage.prompt_tokens == 8


async def test_streamed_prompts_and_choices_find_their_index(client: openai.AsyncOpenAI) -> None:
    texts = dict.fromkeys(range(4), "")
    stream = await client.completions.create(
        model="scripted", prompt=[[1, 2], [3]], n=2, stream=True, echo=True
    )
    async for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == {
        0: "bcHello world!",
        1: "bcHello1 world1!1",
        2: "dHello world!",
        3: "dHello1 world1!1",
    }


async def test_chat_logprobs(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="scripted", messages=HELLO, logprobs=True, top_logprobs=2, max_completion_tokens=2
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    assert [token.token for token in logprobs.content] == ["Hello", " world"]
    assert logprobs.content[0].logprob == -9999.0
    assert logprobs.content[0].bytes == list(b"Hello")
    assert [one.token for one in logprobs.content[1].top_logprobs] == [" world~0", " world~1"]


@pytest.mark.parametrize("stream", [False, True])
async def test_completion_logprobs_are_the_same_streamed(
    client: openai.AsyncOpenAI, stream: bool
) -> None:
    answer: Any = await client.completions.create(
        model="scripted", prompt="x", logprobs=1, max_tokens=2, stream=stream
    )
    parts = [chunk async for chunk in answer] if stream else [answer]
    columns = [part.choices[0].logprobs for part in parts]
    assert [token for one in columns for token in one.tokens] == ["Hello", " world"]
    assert [value for one in columns for value in one.token_logprobs] == [-9999.0, -9999.0]
    assert [at for one in columns for at in one.text_offset] == [0, 5]
    tops = [top for one in columns for top in one.top_logprobs]
    assert tops == [
        {"Hello~0": 0.0, "Hello": -9999.0},
        {" world~0": 0.0, " world": -9999.0},
    ]


async def test_sampling_reaches_the_engine(
    client: openai.AsyncOpenAI, service: ScriptedService
) -> None:
    await client.chat.completions.create(
        model="scripted",
        messages=[
            {"role": "developer", "content": "be brief"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
        ],
        temperature=0.5,
        top_p=0.9,
        stop=["END", "X"],
        presence_penalty=0.1,
        frequency_penalty=0.2,
        logit_bias={"5": -3},
        user="me",
        extra_body={
            "top_k": 4,
            "min_p": 0.1,
            "repetition_penalty": 1.1,
            "min_tokens": 1,
            "ignore_eos": True,
            "stop_token_ids": [9],
            "priority": -1,
            "deadline_ms": 5000,
            "cache_salt": "s",
        },
    )
    generate = service.asked[0]
    params = generate.params
    assert [(turn.role, turn.content) for turn in generate.messages or ()] == [
        ("system", "be brief"),
        ("user", "ab"),
    ]
    assert (params.temperature, params.top_p, params.stop) == (0.5, 0.9, ("END", "X"))
    assert (params.presence_penalty, params.frequency_penalty) == (0.1, 0.2)
    assert (params.logit_bias, params.top_k, params.min_p) == ({5: -3.0}, 4, 0.1)
    assert (params.repetition_penalty, params.min_tokens) == (1.1, 1)
    assert (params.ignore_eos, params.stop_token_ids, params.max_tokens) == (True, (9,), None)
    assert (generate.priority, generate.deadline_ms) == (-1, 5000)
    assert (generate.cache_salt, generate.trace) == ("s", "me")


async def test_refusals_become_the_clients_own_exceptions(
    client: openai.AsyncOpenAI, service: ScriptedService
) -> None:
    service.refusal = InvalidRequest("prompt: too odd", field="prompt")
    with pytest.raises(openai.BadRequestError) as bad:
        await client.completions.create(model="scripted", prompt="x")
    assert bad.value.param == "prompt"
    service.refusal = Overloaded("full", retry_after=3)
    with pytest.raises(openai.RateLimitError) as full:
        await client.completions.create(model="scripted", prompt="x", stream=True)
    assert full.value.response.headers["retry-after"] == "3"
    service.refusal = EngineBroken("worker died")
    with pytest.raises(openai.InternalServerError) as broken:
        await client.completions.create(model="scripted", prompt="x")
    assert broken.value.status_code == 503
    with pytest.raises(openai.NotFoundError):
        await client.completions.create(model="another", prompt="x")


async def test_a_failure_in_mid_stream_is_an_error_not_an_end(
    client: openai.AsyncOpenAI, service: ScriptedService
) -> None:
    service.failure, service.fail_after = EngineBroken("worker died"), 2
    heard = ""
    with pytest.raises(openai.APIError, match="worker died"):
        async for chunk in await client.completions.create(
            model="scripted", prompt="x", stream=True
        ):
            heard += chunk.choices[0].text
    assert heard == "Hello world"


async def test_a_client_that_leaves_ends_its_requests(
    client: openai.AsyncOpenAI, service: ScriptedService
) -> None:
    service.gate = anyio.Event()
    async with anyio.create_task_group() as group:

        async def ask() -> None:
            await client.completions.create(model="scripted", prompt=["a", "b"], n=3)

        group.start_soon(ask)
        await until(lambda: len(service.streams) == 2)
        group.cancel_scope.cancel()
    await until(lambda: all(stream.closed for stream in service.streams))
    assert len(service.streams) == 2
    assert not any(stream.ended for stream in service.streams)


async def test_models(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["scripted"]
    assert (await client.models.retrieve("scripted")).owned_by == "optimist"


async def test_the_synchronous_client(address: str) -> None:
    def talk() -> str:
        with openai.OpenAI(base_url=address, api_key="-", max_retries=0) as client:
            stream = client.chat.completions.create(model="scripted", messages=HELLO, stream=True)
            return "".join(chunk.choices[0].delta.content or "" for chunk in stream)

    assert await anyio.to_thread.run_sync(talk) == "Hello world!"
