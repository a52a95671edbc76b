"""The HTTP face inside another application, and the loops it refuses."""

from __future__ import annotations

import socket

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from optimist.http.app import engine_app
from optimist.http.server import listen, serve_http, url
from optimist.messages.errors import ConfigError
from optimist.messages.requests import Admit
from optimist.testing.byte_tokenizer import EOS
from optimist.testing.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.anyio


def paris(_: Admit) -> list[int]:
    return [*b"Paris", EOS]


async def test_a_mounted_engine_is_served_while_it_runs_and_again_after_a_restart() -> None:
    engine = ScriptedEngine(paris)
    app = Starlette(routes=[Mount("/llm", engine_app(engine))])
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test/llm") as client:

        async def ask() -> httpx.Response:
            return await client.post("/v1/completions", json={"prompt": "x"})

        assert (await client.get("/health")).status_code == 503
        assert (await ask()).status_code == 503
        for _ in range(2):
            async with engine:
                assert (await client.get("/ready")).status_code == 200
                assert (await ask()).json()["choices"][0]["text"] == "Paris"
            assert (await client.get("/ready")).status_code == 503
            assert (await client.get("/metrics")).status_code == 200


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_serving_http_is_refused_on_trio_by_name() -> None:
    listener = listen("127.0.0.1", 0)
    with pytest.raises(
        ConfigError, match=r"serve\(http=\.\.\.\): expected an asyncio loop, got trio"
    ):
        await serve_http(engine_app(ScriptedEngine(paris)), listener)
    assert listener.fileno() == -1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancelled_server_frees_its_port() -> None:
    listener = listen("127.0.0.1", 0)
    host, port = listener.getsockname()
    started = anyio.Event()
    async with ScriptedEngine(paris) as engine, anyio.create_task_group() as tasks:

        async def serve() -> None:
            await serve_http(engine_app(engine), listener, started=started.set)

        tasks.start_soon(serve)
        await started.wait()
        async with httpx.AsyncClient(base_url=url(listener)) as client:
            assert (await client.get("/health")).status_code == 200
        tasks.cancel_scope.cancel()
    listen(host, port).close()


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(ConfigError, match="expected a port, 0 to 65535"):
        listen("127.0.0.1", port)


def test_an_address_that_is_not_ours_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--host 192\.0\.2\.1 --port 0"):
        listen("192.0.2.1", 0)


def test_an_address_of_version_six_has_brackets() -> None:
    with socket.socket(socket.AF_INET6) as listener:
        listener.bind(("::1", 0))
        assert url(listener) == f"http://[::1]:{listener.getsockname()[1]}"


def test_an_app_can_be_made_before_its_engine_starts() -> None:
    assert len(engine_app(ScriptedEngine(paris)).routes) == 9


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("endless", [b"a" * 10_000, b"b: c\r\n" * 2_000], ids=["a value", "lines"])
@pytest.mark.parametrize("place", ["head", "trailers"])
async def test_a_head_or_trailers_without_end_are_refused(endless: bytes, place: str) -> None:
    begin = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\n"
    if place == "trailers":
        begin += b"transfer-encoding: chunked\r\n\r\n0\r\n"
    if not endless.endswith(b"\n"):
        begin += b"a: "
    listener = listen("127.0.0.1", 0)
    app = engine_app(ScriptedEngine(paris))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve_http, app, listener)
        async with await anyio.connect_tcp(*listener.getsockname()) as client:
            await client.send(begin)
            with anyio.fail_after(60):
                answer = b""
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    for _ in range(200):
                        await client.send(endless)
                        with anyio.move_on_after(0):
                            answer += await client.receive()
                    raise AssertionError("2 MB were taken")
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_long_body_in_many_pieces_is_no_long_head() -> None:
    listener = listen("127.0.0.1", 0)
    engine = ScriptedEngine(paris)
    async with anyio.create_task_group() as tasks, engine:
        tasks.start_soon(serve_http, engine_app(engine), listener)
        async with httpx.AsyncClient(base_url=url(listener)) as client:
            body = b'{"prompt": "x"' + b" " * 400_000 + b"}"
            kind = {"content-type": "application/json"}
            answer = await client.post("/v1/completions", content=body, headers=kind)
            assert answer.json()["choices"][0]["text"] == "Paris"
        tasks.cancel_scope.cancel()
