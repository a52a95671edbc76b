"""What a refusal says, word for word."""

from __future__ import annotations

import httpx
import pytest
from scripted_service import ScriptedService

pytestmark = pytest.mark.anyio
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"


@pytest.mark.parametrize(
    ("route", "body", "says"),
    [
        (COMPLETION, b'{"prompt": "x", "n": true}', "n: expected int or null, got bool"),
        (COMPLETION, b"{}", "prompt: expected a value, got nothing"),
        (COMPLETION, b'{"prompt": "x", "n": 1, "n": 2}', "n: expected once, got it twice"),
        (
            COMPLETION,
            b'{"prompt": "\\ud800"}',
            "the body is not valid JSON: half of a surrogate pair",
        ),
        (
            COMPLETION,
            b'{"prompt": "x", "temprature": 0}',
            "temprature: unknown field; did you mean temperature?",
        ),
        (
            CHAT,
            b'{"messages": [{"rol": "user"}]}',
            "messages[0].rol: unknown field; did you mean role?",
        ),
        (CHAT, b'{"messages": [{"role": "user", "foo": 1}]}', "messages[0].foo: unknown field"),
        (
            CHAT,
            b'{"messages": [{"role": "tool"}]}',
            "messages[0].role: expected one of system, developer, user, assistant, got 'tool'",
        ),
        (
            CHAT,
            b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
            "messages[0].content[0].type: expected one of text, got 'image_url'",
        ),
        (
            COMPLETION,
            b'{"prompt": "x", "stream": true, "stream_options": {"include_usag": 1}}',
            "stream_options.include_usag: unknown field; did you mean include_usage?",
        ),
    ],
)
async def test_what_a_refusal_says(
    http: httpx.AsyncClient, route: str, body: bytes, says: str
) -> None:
    headers = {"content-type": "application/json"}
    answer = await http.post(route, content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, says)


async def test_a_pair_of_surrogates_is_a_character(
    http: httpx.AsyncClient, service: ScriptedService
) -> None:
    headers = {"content-type": "application/json"}
    answer = await http.post(COMPLETION, content=b'{"prompt": "\\ud83d\\ude00"}', headers=headers)
    assert answer.status_code == 200
    assert service.asked[0].prompt == "\N{GRINNING FACE}"


async def test_a_wrong_route_or_method_is_named(http: httpx.AsyncClient) -> None:
    missing = (await http.post("/v1/embeddings", json={})).json()["error"]["message"]
    assert missing == "POST /v1/embeddings: not found"
    wrong = (await http.get(COMPLETION)).json()["error"]["message"]
    assert wrong == f"GET {COMPLETION}: method not allowed; POST is there"
