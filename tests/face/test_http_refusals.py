"""What the HTTP face refuses, by name and by status, without ever asking the engine."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from scripted_service import ScriptedService
from starlette.types import Message

from optimist.http.app import MAX_BODY, create_app
from optimist.http.bodies import Body, ChatBody, CompletionBody
from optimist.http.fields import fields, only
from optimist.messages.errors import DeadlineExceeded, EngineEnded, InvalidRequest, RequestFailed

pytestmark = pytest.mark.anyio
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
LEAST: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "hello"}]},
    COMPLETION: {"prompt": "hello"},
}


def _optional(route: str) -> list[str]:
    kind: type[Body] = ChatBody if route == CHAT else CompletionBody
    return [name for name in fields(kind) if name not in ("messages", "prompt")]


@pytest.mark.parametrize("route", [CHAT, COMPLETION])
async def test_an_explicit_null_is_as_good_as_absent(http: httpx.AsyncClient, route: str) -> None:
    for name in _optional(route):
        answer = await http.post(route, json=LEAST[route] | {name: None})
        assert answer.status_code == 200, (name, answer.text)


@pytest.mark.parametrize("route", [CHAT, COMPLETION])
async def test_every_field_that_is_known_and_not_supported_is_refused_by_name(
    http: httpx.AsyncClient, service: ScriptedService, route: str
) -> None:
    kind: type[Body] = ChatBody if route == CHAT else CompletionBody
    refused = [name for name, field in fields(kind).items() if only(field) is not None]
    assert len(refused) >= 2
    for name in refused:
        answer = await http.post(route, json=LEAST[route] | {name: {"some": "thing"}})
        assert answer.status_code == 400, name
        assert answer.json()["error"]["param"] == name
    assert service.asked == []


@pytest.mark.parametrize("route", [CHAT, COMPLETION])
async def test_the_values_that_change_nothing_are_taken(
    http: httpx.AsyncClient, route: str
) -> None:
    kind: type[Body] = ChatBody if route == CHAT else CompletionBody
    for name, field in fields(kind).items():
        for value in only(field) or ():
            answer = await http.post(route, json=LEAST[route] | {name: value})
            assert answer.status_code == 200, (name, value, answer.text)


@pytest.mark.parametrize(
    ("route", "change", "field"),
    [
        (COMPLETION, {"temprature": 0}, "temprature"),
        (COMPLETION, {"temperature": -0.1}, "temperature"),
        (COMPLETION, {"temperature": "hot"}, "temperature"),
        (COMPLETION, {"top_p": 0}, "top_p"),
        (COMPLETION, {"n": 0}, "n"),
        (COMPLETION, {"n": 1.5}, "n"),
        (COMPLETION, {"n": 65}, "n"),
        (COMPLETION, {"max_tokens": 0}, "max_tokens"),
        (COMPLETION, {"seed": 2**63}, "seed"),
        (COMPLETION, {"stop": ""}, "stop"),
        (COMPLETION, {"stop": ["a", 1]}, "stop[1]"),
        (COMPLETION, {"stop": ["x"] * 17}, "stop"),
        (COMPLETION, {"logprobs": 21}, "logprobs"),
        (COMPLETION, {"logprobs": True}, "logprobs"),
        (COMPLETION, {"logit_bias": {"abc": 1}}, "logit_bias.abc"),
        (COMPLETION, {"logit_bias": {"4": 1, "5": "x"}}, "logit_bias.5"),
        (COMPLETION, {"logit_bias": {"-1": 1}}, "logit_bias.-1"),
        (COMPLETION, {"logit_bias": {"1": 101}}, "logit_bias.1"),
        (COMPLETION, {"presence_penalty": 2.1}, "presence_penalty"),
        (COMPLETION, {"repetition_penalty": 0}, "repetition_penalty"),
        (COMPLETION, {"priority": 10**30}, "priority"),
        (COMPLETION, {"deadline_ms": 0}, "deadline_ms"),
        (COMPLETION, {"user": "x" * 257}, "user"),
        (COMPLETION, {"stream_options": {"include_usage": True}}, "stream_options"),
        (
            COMPLETION,
            {"stream": True, "stream_options": {"include_obfuscation": True}},
            "stream_options.include_obfuscation",
        ),
        (COMPLETION, {"stream": True, "stream_options": {"usage": True}}, "stream_options.usage"),
        (COMPLETION, {"echo": True, "prompt": [10**6]}, "prompt"),
        (COMPLETION, {"prompt": None}, "prompt"),
        (COMPLETION, {"prompt": []}, "prompt"),
        (COMPLETION, {"prompt": [1, "a"]}, "prompt[1]"),
        (COMPLETION, {"prompt": [1.5]}, "prompt[0]"),
        (COMPLETION, {"prompt": [True]}, "prompt[0]"),
        (COMPLETION, {"prompt": ["a"] * 3, "n": 64}, "prompt"),
        (CHAT, {"messages": []}, "messages"),
        (CHAT, {"messages": [{"role": "user"}]}, "messages[0].content"),
        (CHAT, {"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        (CHAT, {"messages": [{"role": "user", "content": "x", "name": "y"}]}, "messages[0].name"),
        (CHAT, {"messages": [{"role": "user", "content": "x", "mood": 1}]}, "messages[0].mood"),
        (
            CHAT,
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0].type",
        ),
        (CHAT, {"top_logprobs": 2}, "top_logprobs"),
        (CHAT, {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        (CHAT, {"max_completion_tokens": 0}, "max_completion_tokens"),
        (CHAT, {"max_completion_tokens": 1, "max_tokens": 1}, "max_tokens"),
        (CHAT, {"response_format": {"type": "json_object"}}, "response_format"),
        (CHAT, {"tools": [{"type": "function"}]}, "tools"),
    ],
)
async def test_a_bad_field_is_a_400_that_names_it(
    http: httpx.AsyncClient,
    service: ScriptedService,
    route: str,
    change: dict[str, Any],
    field: str,
) -> None:
    answer = await http.post(route, json=LEAST[route] | change)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, field)
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith(field)
    assert service.asked == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"nothing",
        b'{"prompt": "\xff"}',
        b'{"prompt": "\\ud800"}',
        b'{"prompt": "x", "stop": "\\udfff"}',
        b'{"prompt": "x", "user": "\\ud83d"}',
        b'{"prompt": "x", "temperature": NaN}',
        b'{"prompt": "x", "logit_bias": {"5": 1e309}}',
        b'{"prompt": ' + b"[" * 200_000,
        b'{"prompt": "x", "best_of": ' + b"[" * 200_000,
        b"[]",
    ],
)
async def test_what_is_not_a_json_object_is_a_400(
    http: httpx.AsyncClient, service: ScriptedService, content: bytes
) -> None:
    headers = {"content-type": "application/json"}
    answer = await http.post(COMPLETION, content=content, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert service.asked == []


async def test_a_body_that_is_too_long_is_a_413_before_it_is_read_whole(
    service: ScriptedService,
) -> None:
    read, sent = 0, []

    async def receive() -> Message:
        nonlocal read
        read += 2**16
        return {"type": "http.request", "body": bytes(2**16), "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": COMPLETION, "headers": headers}
    await create_app(service)(scope, receive, send)
    assert sent[0]["status"] == 413
    assert MAX_BODY < read < 2 * MAX_BODY


async def test_other_refusals_have_the_same_shape(
    http: httpx.AsyncClient, service: ScriptedService
) -> None:
    plain = {"content-type": "text/plain"}
    for answer, status in [
        (await http.post(COMPLETION, content=b"{}", headers=plain), 415),
        (await http.post("/v1/embeddings", json={}), 404),
        (await http.get(COMPLETION), 405),
        (await http.get("/v1/models/another/one"), 404),
        (await http.post(COMPLETION, json={"prompt": "x", "model": "another"}), 404),
    ]:
        assert answer.status_code == status
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DeadlineExceeded("too late"), 504),
        (EngineEnded("draining"), 503),
        (RequestFailed("died twice"), 500),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_fails_before_its_first_token_has_its_own_status(
    http: httpx.AsyncClient,
    service: ScriptedService,
    error: Any,
    status: int,
    stream: bool,
) -> None:
    service.failure = error
    answer = await http.post(COMPLETION, json={"prompt": "x", "stream": stream})
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == error.code
    assert all(one.closed for one in service.streams)


async def test_a_refusal_of_the_engine_names_the_prompt_as_the_route_does(
    http: httpx.AsyncClient, service: ScriptedService
) -> None:
    service.refusal = InvalidRequest("prompt_ids[1]: expected less", field="prompt_ids[1]")
    answer = await http.post(COMPLETION, json={"prompt": [1, 2]})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "prompt[1]")
    assert error["message"] == "prompt[1]: expected less"


async def test_the_first_failure_of_several_prompts_ends_the_others(
    http: httpx.AsyncClient, service: ScriptedService
) -> None:
    service.failure, service.fail_after = RequestFailed("died twice"), 2
    answer = await http.post(COMPLETION, json={"prompt": ["a", "b", "c"], "max_tokens": 16})
    assert answer.status_code == 500
    assert len(service.streams) == 3
    assert all(stream.closed for stream in service.streams)


async def test_answers_are_strict_json(http: httpx.AsyncClient) -> None:
    answer = await http.post(COMPLETION, json={"prompt": "x", "logprobs": 2})

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(answer.content, parse_constant=refuse)
