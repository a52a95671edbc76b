"""A scripted engine served over ZeroMQ, and a scripted service behind the routes of HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import httpx
import pytest
from scripted_service import ScriptedService

from optimist.http.app import create_app
from optimist.testing.scripted_engine import ScriptedEngine
from optimist.testing.scripted_scheduler import Script
from optimist.zmq_front import serve_zmq


class Served(NamedTuple):
    """engine: scripted. endpoint: where it is served."""

    engine: ScriptedEngine
    endpoint: str


class Serve(Protocol):
    def __call__(self, script: Script, **options: Any) -> AbstractAsyncContextManager[Served]: ...


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Serves a scripted engine on ipc, or on the endpoint given."""
    tmp_path.chmod(0o700)

    @asynccontextmanager
    async def run(script: Script, **options: Any) -> AsyncIterator[Served]:
        endpoint = options.pop("endpoint", f"ipc://{tmp_path}/gateway.sock")
        async with (
            ScriptedEngine(script, **options) as engine,
            serve_zmq(engine.gateway, endpoint) as bound,
        ):
            yield Served(engine, bound)

    return run


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture
async def http(service: ScriptedService) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the routes, without a socket."""
    transport = httpx.ASGITransport(app=create_app(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client
