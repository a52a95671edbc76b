"""The routes beside the generating ones."""

from __future__ import annotations

import httpx
import pytest
from scripted_service import WELL, ScriptedService

from optimist.http.app import create_app
from optimist.messages.errors import RequestFailed

pytestmark = pytest.mark.anyio
COMPLETION = "/v1/completions"


async def test_tokenize_and_detokenize(http: httpx.AsyncClient) -> None:
    answer = await http.post("/tokenize", json={"prompt": "ab"})
    assert answer.json() == {"tokens": [97, 98], "count": 2, "max_model_len": 2048}
    answer = await http.post("/tokenize", json={"messages": [{"role": "user", "content": "a"}]})
    assert answer.json()["tokens"] == [97]
    answer = await http.post("/detokenize", json={"tokens": [0, 1]})
    assert answer.json() == {"prompt": "ab"}
    for route, body in [
        ("/tokenize", {}),
        ("/tokenize", {"prompt": "x", "messages": []}),
        ("/tokenize", {"messages": []}),
        ("/detokenize", {"tokens": [10**9]}),
        ("/detokenize", {"tokens": "x"}),
        ("/detokenize", {}),
    ]:
        assert (await http.post(route, json=body)).status_code == 400


async def test_health_is_red_while_the_engine_is_not_well(
    http: httpx.AsyncClient, service: ScriptedService
) -> None:
    assert (await http.get("/health")).status_code == 200
    service.state = WELL._replace(healthy=False, reason="worker is lost")
    answer = await http.get("/health")
    assert answer.status_code == 503
    assert answer.json() == {"status": "worker is lost"}
    assert "optimist_healthy 0.0" in (await http.get("/metrics")).text


async def test_ready_follows_the_engine(http: httpx.AsyncClient, service: ScriptedService) -> None:
    assert (await http.get("/ready")).status_code == 200
    service.state = WELL._replace(accepting=False)
    assert (await http.get("/ready")).status_code == 503


async def test_metrics_count_requests_by_status_and_show_the_engine(
    http: httpx.AsyncClient, service: ScriptedService
) -> None:
    await http.post(COMPLETION, json={"prompt": "x"})
    service.failure = RequestFailed("no")
    await http.post(COMPLETION, json={"prompt": "x"})
    for body in ({"prompt": 1}, {"prompt": "x", "nn": 1}, {"prompt": "x", "model": "another"}):
        await http.post(COMPLETION, json=body)
    text = (await http.get("/metrics")).text
    assert 'optimist_http_requests_total{route="text_completion",status="400"} 2.0' in text
    assert 'optimist_http_requests_total{route="text_completion",status="404"} 1.0' in text
    assert 'optimist_http_requests_total{route="text_completion",status="200"} 1.0' in text
    assert 'optimist_http_requests_total{route="text_completion",status="500"} 1.0' in text
    assert "optimist_first_token_seconds_count 1.0" in text
    assert "optimist_request_seconds_count 5.0" in text
    assert "optimist_free_blocks 9.0" in text
    assert "optimist_steps_total 3.0" in text
    assert 'optimist_dropped_frames_total{actor="worker"} 4.0' in text
    assert "optimist_drafted_tokens_total 6.0" in text
    assert 'optimist_accepted_at_total{place="1"} 1.0' in text
    assert 'optimist_proposer{name="ngram"} 1.0' in text
    assert "optimist_healthy 1.0" in text


async def test_an_unexpected_error_is_a_500_that_tells_nothing_of_the_inside(
    service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(service, "health", broken)
    transport = httpx.ASGITransport(app=create_app(service), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        answer = await client.get("/health")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.json()["error"]["type"] == "server_error"
